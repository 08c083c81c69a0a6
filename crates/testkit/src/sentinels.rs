//! A primary, its replicas, and the Sentinels that watch them.

use std::io;
use std::time::Duration;

use crate::process::wait_until;
use crate::resp::Value;
use crate::server::Server;
use crate::tls::{Authority, Pair};

/// Sentinels find each other and the replicas within seconds; a failover that failed once is tried again much later.
const PATIENCE: Duration = Duration::from_secs(60);
/// How the Sentinels call what they watch.
pub const SERVICE: &str = "locks";

/// Sentinels that watch one primary and its replicas. A majority of them decides; they stop on drop.
#[derive(Debug)]
pub struct Sentinels {
    watchers: Vec<Server>,
}

/// Sentinels to be. See [`Sentinels::builder`].
#[derive(Debug)]
#[must_use = "a builder does nothing before `start`"]
pub struct SentinelsBuilder<'a> {
    primary: &'a Server,
    count: usize,
    replicas: usize,
    down_after: Duration,
    password: Option<String>,
    tls: Option<(&'a Authority, Pair)>,
}

impl Sentinels {
    /// Three that watch this primary and as many replicas as it has by now.
    pub fn watching(primary: &Server) -> Sentinels {
        Sentinels::builder(primary).start()
    }

    /// Ones that differ.
    pub fn builder(primary: &Server) -> SentinelsBuilder<'_> {
        SentinelsBuilder {
            primary,
            count: 3,
            replicas: primary.replicas(),
            down_after: Duration::from_millis(1000),
            password: None,
            tls: None,
        }
    }

    /// Each of them; they can be paused, killed and restarted like servers.
    pub fn each(&self) -> &[Server] {
        &self.watchers
    }

    /// `127.0.0.1:PORT,127.0.0.1:PORT,…`, for a URL.
    pub fn addresses(&self) -> String {
        let ports = self
            .watchers
            .iter()
            .map(|w| format!("127.0.0.1:{}", w.reached_at()));
        ports.collect::<Vec<_>>().join(",")
    }

    /// The port of the primary as the first of them that answers tells.
    #[track_caller]
    pub fn primary_port(&self) -> u16 {
        let told = self
            .watchers
            .iter()
            .find_map(|watcher| told_by(watcher).ok());
        told.expect("a Sentinel answers")
    }

    /// The port of the primary as a majority of them tells, when it does.
    pub fn agreed_port(&self) -> Option<u16> {
        let told: Vec<u16> = self
            .watchers
            .iter()
            .filter_map(|w| told_by(w).ok())
            .collect();
        let votes = |port: u16| told.iter().filter(|other| **other == port).count();
        let agreed = |port: &u16| votes(*port) * 2 > self.watchers.len();
        told.iter().copied().find(agreed)
    }

    /// Waits until a majority tells of another primary than `old`, and returns its port.
    #[track_caller]
    pub fn wait_for_switch(&self, old: u16) -> u16 {
        let mut new = old;
        wait_until(PATIENCE, "the Sentinels name another primary", || {
            new = self.agreed_port().unwrap_or(old);
            new != old
        });
        new
    }

    /// Waits until all of them know each other, and so many replicas, and see no server down.
    #[track_caller]
    pub fn wait_until_settled(&self, replicas: usize) {
        wait_until(PATIENCE, "the Sentinels agree that all is well", || {
            self.watchers
                .iter()
                .all(|watcher| knows(watcher, self.watchers.len() - 1, replicas).unwrap_or(false))
        });
    }

    /// Has one of them hand the service over to a replica although no server is down. The switch comes some time later.
    #[track_caller]
    pub fn fail_over(&self) {
        let answer = self.watchers[0].cli(&["SENTINEL", "FAILOVER", SERVICE]);
        assert!(!answer.is_error(), "{answer:?}");
    }
}

impl<'a> SentinelsBuilder<'a> {
    /// How many there are; a majority decides.
    pub fn count(mut self, count: usize) -> Self {
        self.count = count;
        self
    }

    /// How long a server must be silent before it counts as down.
    pub fn down_after(mut self, time: Duration) -> Self {
        self.down_after = time;
        self
    }

    /// The Sentinels themselves ask every client for this password.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// They reach the servers and each other over TLS, and are reached that way.
    pub fn tls(mut self, authority: &'a Authority, pair: Pair) -> Self {
        self.tls = Some((authority, pair));
        self
    }

    /// Starts them, and waits until they know each other and the replicas.
    pub fn start(self) -> Sentinels {
        let lines = self.lines();
        let watchers: Vec<Server> = (0..self.count)
            .map(|_| {
                let mut builder = Server::builder()
                    .binary(self.primary.binary())
                    .sentinel(lines.clone());
                if let Some(password) = &self.password {
                    builder = builder.password(password);
                }
                if let Some((authority, pair)) = &self.tls {
                    builder = builder.tls_among(authority, pair.clone());
                }
                builder.start()
            })
            .collect();
        for watcher in &watchers {
            // Versions before 7 refuse, and take their time.
            watcher.cli(&["SENTINEL", "DEBUG", "publish-period", "200"]);
            watcher.cli(&["SENTINEL", "DEBUG", "info-period", "500"]);
        }
        let sentinels = Sentinels { watchers };
        sentinels.wait_until_settled(self.replicas);
        sentinels
    }

    fn lines(&self) -> String {
        let mut lines = vec![
            format!(
                "monitor {SERVICE} 127.0.0.1 {} {}",
                self.primary.reached_at(),
                self.count / 2 + 1
            ),
            format!(
                "down-after-milliseconds {SERVICE} {}",
                self.down_after.as_millis()
            ),
            // A failover that did not succeed is tried again after twice this time.
            format!("failover-timeout {SERVICE} 5000"),
        ];
        if let Some(password) = self.primary.password() {
            lines.push(format!("auth-pass {SERVICE} {password}"));
        }
        let lines = lines.iter().map(|line| format!("sentinel {line}\n"));
        lines.collect()
    }
}

fn told_by(watcher: &Server) -> io::Result<u16> {
    let answer = watcher.try_cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE])?;
    let port = answer
        .list()
        .and_then(|words| words.get(1)?.text()?.parse().ok());
    port.ok_or_else(|| io::Error::other(format!("no address: {answer:?}")))
}

fn knows(watcher: &Server, others: usize, replicas: usize) -> io::Result<bool> {
    let primary = watcher.try_cli(&["SENTINEL", "MASTER", SERVICE])?;
    let is = |key: &str, wanted: &str| field(&primary, key) == Some(wanted);
    let known = watcher.try_cli(&["SENTINEL", "REPLICAS", SERVICE])?;
    let followed = |replica: &Value| {
        field(replica, "flags") == Some("slave")
            && field(replica, "master-link-status") == Some("ok")
    };
    let found = known
        .list()
        .unwrap_or_default()
        .iter()
        .filter(|r| followed(r))
        .count();
    Ok(
        is("flags", "master")
            && is("num-other-sentinels", &others.to_string())
            && found == replicas,
    )
}

/// Sentinels tell what they know as a list of names and values.
fn field<'a>(answer: &'a Value, key: &str) -> Option<&'a str> {
    let (pairs, _) = answer.list()?.as_chunks::<2>();
    let pair = pairs.iter().find(|pair| pair[0].text() == Some(key))?;
    pair[1].text()
}

/// A primary, two replicas, and three Sentinels that watch them.
#[derive(Debug)]
pub struct Watched {
    /// All servers, whichever is the primary.
    pub servers: Vec<Server>,
    /// Those that watch.
    pub sentinels: Sentinels,
}

impl Watched {
    /// Without passwords.
    pub fn start() -> Watched {
        let primary = Server::start();
        let replicas: Vec<_> = (0..2)
            .map(|_| Server::builder().replica_of(&primary).start())
            .collect();
        let sentinels = Sentinels::watching(&primary);
        let mut servers = vec![primary];
        servers.extend(replicas);
        Watched { servers, sentinels }
    }

    /// All of them reach each other and are reached over TLS, with this certificate. One replica.
    pub fn over_tls(authority: &Authority, pair: &Pair) -> Watched {
        let server = || Server::builder().tls_among(authority, pair.clone());
        let primary = server().start();
        let replica = server().replica_of(&primary).start();
        wait_until(PATIENCE, "the primary feeds its replica", || {
            primary.replicas() == 1
        });
        let sentinels = Sentinels::builder(&primary).tls(authority, pair.clone());
        let sentinels = sentinels.start();
        Watched {
            servers: vec![primary, replica],
            sentinels,
        }
    }

    /// `redis+sentinel://127.0.0.1:PORT,…/SERVICE`, or `rediss+…`
    pub fn url(&self) -> String {
        let secured = self
            .servers
            .iter()
            .any(|server| server.tls_port().is_some());
        let scheme = if secured { "rediss" } else { "redis" };
        format!(
            "{scheme}+sentinel://{}/{SERVICE}",
            self.sentinels.addresses()
        )
    }

    /// The primary as the Sentinels tell.
    #[track_caller]
    pub fn primary(&self) -> &Server {
        self.on(self.sentinels.primary_port())
    }

    /// The server on that port.
    #[track_caller]
    pub fn on(&self, port: u16) -> &Server {
        let found = self
            .servers
            .iter()
            .find(|server| server.reached_at() == port);
        found.expect("one of the servers listens there")
    }

    /// Tells each server that follows another to follow the primary of this moment: on a busy machine Sentinels may name
    /// another one at any time. True when all follow it already.
    pub fn tell_whom_to_follow(&self) -> bool {
        let primary = self.primary().reached_at();
        let others = self
            .servers
            .iter()
            .filter(|one| one.reached_at() != primary);
        let astray: Vec<_> = others.filter(|one| !one.follows(primary)).collect();
        for server in &astray {
            // Without effect on one that is on its way.
            server.cli(&["REPLICAOF", "127.0.0.1", &primary.to_string()]);
        }
        astray.is_empty()
    }

    /// Brings every server back and has it follow the primary, until the Sentinels find all well.
    pub fn heal(&self) {
        for server in &self.servers {
            server.resume();
            if !crate::process::is_alive(server.pid()) {
                server.restart();
            }
        }
        wait_until(PATIENCE, "all follow the primary", || {
            self.tell_whom_to_follow()
        });
        self.sentinels.wait_until_settled(self.servers.len() - 1);
    }
}

#[cfg(test)]
mod tests;
