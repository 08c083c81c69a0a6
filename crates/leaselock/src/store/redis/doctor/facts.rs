//! Findings from a server's facts about itself. No I/O.

use std::collections::HashMap;
use std::time::Duration;

use redis::Value;

use crate::base::span::rounded;
use crate::store::redis::answer;
use crate::store::report::Finding;

/// The set-up, which decides what is wrong with one of its servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// One server.
    Single,
    /// The nodes of a cluster.
    Cluster,
}

/// The known facts about one server.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Lines of INFO and settings, by name.
    words: HashMap<String, String>,
    /// How far the server's clock is ahead of this machine's.
    pub(super) offset_us: Option<i64>,
    /// True if a login needs no password.
    pub(super) open: Option<bool>,
    /// True if others on the network path can read what is sent.
    pub(super) readable: Option<bool>,
}

impl Facts {
    pub(super) fn add_info(&mut self, text: &str) {
        for line in text.lines() {
            if let Some((name, value)) = line.trim_end().split_once(':') {
                self.words.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    pub(super) fn add_settings(&mut self, pairs: &[String]) {
        for pair in pairs.chunks_exact(2) {
            self.words.insert(pair[0].clone(), pair[1].clone());
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.words.get(name).map(String::as_str)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    pub(super) fn is_append_only(&self) -> Option<bool> {
        let running = self.get("aof_enabled").map(|flag| flag == "1");
        running.or_else(|| self.get("appendonly").map(|flag| flag == "yes"))
    }

    pub(super) fn policy(&self) -> Option<&str> {
        self.get("maxmemory_policy")
            .or_else(|| self.get("maxmemory-policy"))
    }

    /// Returns the numbers of the version; there are none when it is not known.
    fn version(&self) -> Vec<u32> {
        let parts = self.get("redis_version").unwrap_or_default().split('.');
        parts.map_while(|part| part.parse().ok()).collect()
    }

    /// True if scripts are refused without replicas, as commands are.
    ///
    /// Observed: not on 6.2.5, but on 6.2.14.
    pub(super) fn holds_scripts_to_replicas(&self) -> bool {
        self.version() >= vec![6, 2, 14]
    }

    pub(super) fn is_seven(&self) -> bool {
        self.version() >= vec![7, 0]
    }

    /// Returns one check per topic with a known fact.
    pub(super) fn checks(&self, shape: Shape) -> Vec<Finding> {
        let all = [
            self.server(),
            self.role(shape),
            self.cluster(shape),
            self.persistence(),
            self.eviction(),
            self.memory(),
            self.writes(shape),
            self.replicas(),
            self.protection(),
        ];
        all.into_iter().flatten().collect()
    }

    fn server(&self) -> Option<Finding> {
        let version = self.version();
        let found = match self.get("valkey_version") {
            _ if version.len() < 2 => return None,
            Some(valkey) => format!("Valkey {valkey}"),
            None => format!("Redis {}", self.get("redis_version")?),
        };
        Some(if version >= vec![6, 2] {
            Finding::fit("server", found)
        } else {
            Finding::unfit("server", found, "use Redis 6.2 or later, or Valkey")
        })
    }

    fn role(&self, shape: Shape) -> Option<Finding> {
        Some(match self.get("role")? {
            "master" => Finding::fit("role", "primary"),
            _ if shape == Shape::Cluster => Finding::fit("role", "replica"),
            _ => {
                let advice = "a replica grants nothing and its answers are late: name the primary in the URL";
                Finding::unfit("role", "replica", advice)
            }
        })
    }

    fn cluster(&self, shape: Shape) -> Option<Finding> {
        Some(match (self.get("cluster_enabled")?, shape) {
            ("0", Shape::Cluster) => {
                let advice = "name it with redis:// instead of redis+cluster://";
                Finding::unfit("cluster", "no node of a cluster", advice)
            }
            ("0", _) => Finding::fit("cluster", "a single server"),
            (_, Shape::Cluster) => Finding::fit("cluster", "a node of a cluster"),
            _ => {
                let advice = "name it as redis+cluster:// with some of the nodes";
                Finding::unfit("cluster", "a node of a cluster", advice)
            }
        })
    }

    fn persistence(&self) -> Option<Finding> {
        let (when, save) = (self.get("appendfsync"), self.get("save"));
        let found = match (self.is_append_only()?, when) {
            (true, Some("always")) => "every write is on disk before its answer".to_owned(),
            (true, Some("everysec")) => "the append-only file is written every second".to_owned(),
            (true, _) => format!(
                "append-only file, written when: {}",
                when.unwrap_or("unknown")
            ),
            (false, _) if save.unwrap_or_default().is_empty() => "none".to_owned(),
            (false, _) => "snapshots only".to_owned(),
        };
        let advice = match (self.is_append_only()?, when) {
            (true, Some("always")) => None,
            (true, Some("everysec")) => Some(
                "a power failure, or a kill of the server while its disk is slow, forgets the leases of the last second \
                 or two: set appendfsync always, or use strict mode",
            ),
            (true, _) => Some("set appendfsync always, so that a restart forgets no lease"),
            (false, _) => Some(
                "a restart forgets leases that are still used, and a second holder gets in: set appendonly yes and \
                 appendfsync always",
            ),
        };
        Some(Finding::advised("persistence", found, advice))
    }

    fn eviction(&self) -> Option<Finding> {
        let policy = self.policy()?;
        let advice = "when memory is full the server deletes locks that are held: set maxmemory-policy noeviction";
        Some(match (policy, self.number("maxmemory")) {
            ("noeviction", _) => Finding::fit("eviction policy", policy),
            (_, Some(0)) => {
                let found = format!("{policy}, without effect while maxmemory is 0");
                Finding::unfit("eviction policy", found, advice)
            }
            _ => Finding::unfit("eviction policy", policy, advice),
        })
    }

    fn memory(&self) -> Option<Finding> {
        let (limit, used) = (self.number("maxmemory")?, self.number("used_memory")?);
        let Some(percent) = used.saturating_mul(100).checked_div(limit) else {
            return Some(Finding::fit("memory", "no limit (maxmemory 0)"));
        };
        let found = format!("{percent} % of maxmemory");
        let advice = "a full server grants no locks: raise maxmemory";
        let advice = (percent >= 90).then_some(advice);
        Some(Finding::advised("memory", found, advice))
    }

    /// Checks what makes a server refuse every write, also by a script, as far as the facts tell.
    fn writes(&self, shape: Shape) -> Option<Finding> {
        const STOPS: &str = "stop-writes-on-bgsave-error";
        let is = |name, word| self.get(name) == Some(word);
        let unfit = |found, advice| Some(Finding::unfit("writes", found, advice));
        if self.get("role")? != "master" {
            let is_refusing = shape == Shape::Single && is("slave_read_only", "1");
            let found = is_refusing.then_some("refused by a replica (READONLY)")?;
            return unfit(found, "name the primary in the URL");
        }
        let advice = "see the server's log, make room on its disk, then BGSAVE";
        if is("aof_enabled", "1") && is("aof_last_write_status", "err") {
            let found = "refused, since the append-only file cannot be written (MISCONF)";
            return unfit(found, advice);
        }
        if is("rdb_last_bgsave_status", "err") && !is(STOPS, "no") && !is("save", "") {
            let found = "the latest snapshot failed: by default writes are refused then (MISCONF)";
            return match self.get(STOPS).and(self.get("save")) {
                Some(_) => unfit(found, advice),
                None => Some(Finding::warn("writes", found, advice)),
            };
        }
        let needed = self.number("min-replicas-to-write");
        // It is there only while both settings are above 0.
        let good = self.number("min_slaves_good_slaves");
        if good.is_some_and(|good| good < needed.unwrap_or(1)) && self.holds_scripts_to_replicas() {
            let advice = "bring the replicas back, or lower min-replicas-to-write";
            return unfit(
                "refused, since too few replicas are in time (NOREPLICAS)",
                advice,
            );
        }
        let not_counted = self.number("mem_not_counted_for_evict").unwrap_or(0);
        let (used, limit) = (self.number("used_memory")?, self.number("maxmemory")?);
        let is_full = limit > 0 && used > limit.saturating_add(not_counted);
        match is_full && self.policy() == Some("noeviction") {
            true => unfit(
                "those of new locks are refused, since memory is full (OOM)",
                "raise maxmemory",
            ),
            false => Some(Finding::fit(
                "writes",
                match (good, needed) {
                    (Some(_), None) => "not refused for the disk or memory",
                    _ => "not refused for the disk, memory or replicas",
                },
            )),
        }
    }

    /// Checks that a server without a password refuses strangers on the network.
    fn protection(&self) -> Option<Finding> {
        let mode = self.get("protected-mode")?;
        let lets_in = mode != "yes" && self.open == Some(true);
        let advice = "any machine that reaches the server is let in without a password: \
                      set protected-mode yes, or a password";
        let advice = lets_in.then_some(advice);
        Some(Finding::advised("protected mode", mode, advice))
    }

    pub(super) fn login(&self) -> Option<Finding> {
        let advice = "every client that reaches the server can break every lock: set requirepass, or ACL users and \
                      `user default off`";
        Some(match self.open? {
            true => Finding::warn("login", "no password is needed", advice),
            false => Finding::fit("login", "needs a password"),
        })
    }

    /// Checks replicas: a failover loses what the new primary had not received yet.
    fn replicas(&self) -> Option<Finding> {
        let attached = self.number("connected_slaves")?;
        let needed = self.number("min-replicas-to-write");
        let mut found = format!("{attached} attached");
        if let Some(needed) = needed {
            found += &format!(", {needed} needed for writes");
        }
        if let (Some(1..), Some(lag)) = (needed, self.number("min-replicas-max-lag")) {
            found += &format!(", silent for {lag} s at most");
        }
        let advice = match (attached, needed) {
            (1.., Some(0)) => Some(
                "a primary that is cut off goes on granting, and a failover forgets it: \
                 set min-replicas-to-write 1 and a small min-replicas-max-lag",
            ),
            (1.., Some(_)) if !self.holds_scripts_to_replicas() => Some(
                "early servers let scripts write whatever min-replicas-to-write says: use 6.2.14 or later",
            ),
            _ => None,
        };
        Some(Finding::advised("replicas", found, advice))
    }
}

/// Checks the clock; `offset_us` is how far the server's is ahead of this machine's.
pub(super) fn clock(offset_us: i64) -> Finding {
    let (amount, sign) = (
        offset_us.unsigned_abs(),
        if offset_us < 0 { "behind" } else { "ahead of" },
    );
    let found = format!(
        "{} {sign} this machine",
        rounded(Duration::from_micros(amount))
    );
    let advice = "leases run by the server's wall clock; one that is off will be set right some day, and that step \
                  ends leases early or keeps them too long: run NTP on both machines";
    Finding::advised("clock", found, (amount > 1_000_000).then_some(advice))
}

pub(super) fn latency(median: Duration) -> Finding {
    let found = format!("{} per round trip", rounded(median));
    let advice =
        "a request may take a quarter of the ttl at most: choose a long ttl, or a server nearby";
    let is_slow = median > Duration::from_millis(50);
    Finding::advised("latency", found, is_slow.then_some(advice))
}

/// Parses `ACL GETUSER default`: true if the user is on and has no password.
pub(super) fn is_open(user: &Value) -> bool {
    let flags = answer::value(user, "flags").map(answer::texts);
    let flags = flags.unwrap_or_default();
    flags.iter().any(|flag| flag == "on") && flags.iter().any(|flag| flag == "nopass")
}
