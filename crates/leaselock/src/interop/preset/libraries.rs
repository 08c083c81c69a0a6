//! The libraries, each as its own source defines it. The page *Presets* has the versions that were read.

use std::str::FromStr;
use std::time::Duration;

use super::library::{OtherLibrary, Preset};
use crate::base::error::InvalidInput;
use crate::engine::values::request::Wait;
use crate::interop::protocol::Protocol;

/// One try.
const ONCE: Wait = tries(1, 0, 0);

/// So many tries in all, at this delay, varied by the jitter.
const fn tries(tries: u32, delay_ms: u64, jitter_percent: u8) -> Wait {
    Wait::Poll {
        count: Some(tries - 1),
        delay: Duration::from_millis(delay_ms),
        jitter_percent,
    }
}

const fn ms(ms: u64) -> Option<Duration> {
    Some(Duration::from_millis(ms))
}

/// A library whose key is the name itself, and whose user must set a ttl.
const PLAIN: OtherLibrary = OtherLibrary {
    name: "",
    before: "",
    after: "",
    ttl: None,
    wait: ONCE,
    whole_seconds: false,
    protocol: Protocol::Native,
    note: "",
};

/// Declares a constant for each library, in the order of their names. What it does not say is as in [`PLAIN`].
macro_rules! presets {
    ($($(#[$doc:meta])+ $library:ident { $($field:ident: $value:expr,)+ })+) => {
        const ALL: &[Preset] = &[$(Preset::$library),+];

        impl Preset {
            $(
                $(#[$doc])+
                pub const $library: Preset = Preset(&OtherLibrary { $($field: $value,)+ ..PLAIN });
            )+
        }
    };
}

presets! {
    /// bsm/redislock (Go), with one key.
    BSM_REDISLOCK {
        name: "bsm-redislock",
        note: "a caller with the same fixed token takes the lock; ours are random",
    }

    /// distributed-lock (Rust) with Redis, over one server.
    DISTRIBUTED_LOCK_RS {
        name: "distributed-lock-rs",
        before: "distributed-lock:",
        ttl: ms(30_000),
        note: "it tries once whatever time it is given; one value serves a lock object all its life",
    }

    /// The recipe of the common tutorials: `lock:NAME`, whole seconds, 30 s, ten tries 200 ms apart.
    GUIDE {
        name: "guide",
        before: "lock:",
        ttl: ms(30_000),
        wait: tries(10, 200, 0),
        whole_seconds: true,
        note: "a copy that deletes without comparing takes away whatever lock is there",
    }

    /// ioredis-lock (Node).
    IOREDIS_LOCK {
        name: "ioredis-lock",
        ttl: ms(10_000),
        wait: tries(7, 55, 9), // 50 to 60 ms
        note: "its first package, ioredis-lock, tries once; one value serves a lock object all its life",
    }

    /// The Redis lock of madelson's DistributedLock (.NET), over one server.
    MADELSON {
        name: "madelson",
        ttl: ms(30_000),
        wait: Wait::Forever,
        note: "its waiters ask every 10 to 800 ms, at random; with several servers it locks a majority",
    }

    /// node-redlock, versions 4 and 5 (Node), over one server and one resource.
    NODE_REDLOCK {
        name: "node-redlock",
        wait: tries(11, 200, 50),
        note: "with several servers it locks a majority, and one server alone excludes no holder",
    }

    /// The Redlock of pottery (Python), over one server.
    POTTERY {
        name: "pottery",
        before: "redlock:",
        ttl: ms(10_000),
        wait: Wait::Forever,
        note: "with several servers it locks a majority, and one server alone excludes no holder",
    }

    /// python-redis-lock (Python), which pushes to a list on release.
    PYTHON_REDIS_LOCK {
        name: "python-redis-lock",
        wait: Wait::Forever,
        protocol: Protocol::PythonRedisLock, // which prefixes `lock:`
        note: "without `expire` only an operator frees the lock of a dead holder",
    }

    /// redis-exp-lock (Node).
    REDIS_EXP_LOCK {
        name: "redis-exp-lock",
        ttl: ms(1_000),
        wait: tries(1, 5, 0),
        note: "nothing prolongs its locks",
    }

    /// errorception's redis-lock (Node), from 0.1.0 on.
    REDIS_LOCK {
        name: "redis-lock",
        before: "lock.",
        ttl: ms(5_000),
        wait: Wait::Forever,
        note: "its release deletes without comparing, unless its own clock says that its time is over",
    }

    /// errorception's redis-lock (Node) before 0.1.0, which locks by time stamps.
    REDIS_LOCK_0_0 {
        name: "redis-lock-0.0",
        before: "lock.",
        ttl: ms(5_000),
        wait: Wait::Forever,
        protocol: Protocol::SetnxGetset,
        note: "it needs clocks that agree, and its release deletes without comparing",
    }

    /// `lock_across` of redis-lock (Rust), over one connection.
    REDIS_LOCK_RS {
        name: "redis-lock-rs",
        before: "redlock:",
        wait: Wait::Timeout(Duration::from_secs(10)),
        note: "its own default ttl of 10 ms is not kept here; \
               its locks on several resources have other keys",
    }

    /// The lock of redis-py (Python).
    REDIS_PY {
        name: "redis-py",
        wait: Wait::Forever,
        note: "without `timeout` only an operator frees the lock of a dead holder",
    }

    /// The mutex of redis-semaphore (Node).
    REDIS_SEMAPHORE {
        name: "redis-semaphore",
        before: "mutex:",
        ttl: ms(10_000),
        wait: Wait::Timeout(Duration::from_secs(10)),
        note: "its mutex only; each of its waiters asks every 10 ms",
    }

    /// danielstjules/redislock (Node).
    REDISLOCK {
        name: "redislock",
        ttl: ms(10_000),
        wait: tries(1, 50, 0),
        note: "one value serves a lock object all its life: what an earlier hold sent late counts for a later one",
    }

    /// The plain lock of Redisson (Java).
    REDISSON {
        name: "redisson",
        ttl: ms(30_000),
        wait: Wait::Forever,
        protocol: Protocol::Redisson,
        note: "its `RLock` only, which is re-entrant there and not here",
    }

    /// RedLock.net (.NET), over one server.
    REDLOCK_NET {
        name: "redlock-net",
        before: "redlock:",
        wait: tries(3, 200, 100),
        note: "its extend sets a key that is gone again, so a lock that was broken may come back",
    }

    /// redlock-rb (Ruby), over one server.
    REDLOCK_RB {
        name: "redlock-rb",
        wait: tries(4, 225, 11), // 200 to 250 ms
        note: "its extend sets a key that is gone again, unless `extend_only_if_locked` is given",
    }

    /// redlock (Rust), over one server.
    REDLOCK_RS {
        name: "redlock-rs",
        wait: tries(3, 100, 100),
        note: "it cannot prolong a lock",
    }

    /// redlock-universal (Node), over one server and without a key prefix.
    REDLOCK_UNIVERSAL {
        name: "redlock-universal",
        ttl: ms(30_000),
        wait: tries(4, 100, 0),
        note: "a prefix that its adapter adds belongs into the name",
    }

    /// redsync (Go), over one pool.
    REDSYNC {
        name: "redsync",
        ttl: ms(8_000),
        wait: tries(32, 150, 66), // 50 to 250 ms
        note: "with `WithSetNXOnExtend` its extend sets a key that is gone again",
    }

    /// rslock (Rust), over one server.
    RSLOCK {
        name: "rslock",
        wait: tries(3, 100, 100),
        note: "its guard gives nothing back when it is dropped",
    }

    /// rueidislock (Go) with a majority of 1.
    RUEIDISLOCK {
        name: "rueidislock",
        before: "rueidislock:0:",
        ttl: ms(5_000),
        wait: Wait::Forever,
        note: "only with `KeyMajority: 1`: its default of 2 wants two of three keys; `ForceWithContext` takes any lock",
    }

    /// ShedLock (Java) with Redis, in the environment `default`.
    SHEDLOCK {
        name: "shedlock",
        before: "job-lock:default:",
        note: "its release deletes or shortens without comparing, unless `safeUpdate` is on; \
               with `lockAtLeastFor` a lock stays after its job has ended",
    }

    /// warlock (Node).
    WARLOCK {
        name: "warlock",
        after: ":lock",
        note: "its user gives the ttl with each lock",
    }
}

impl Preset {
    /// Every preset there is, by name.
    pub fn all() -> &'static [Preset] {
        ALL
    }
}

impl FromStr for Preset {
    type Err = InvalidInput;

    /// By the name that [`library`](Preset::library) gives.
    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        let found = Preset::all().iter().find(|preset| preset.0.name == text);
        found.copied().ok_or_else(|| {
            let short: String = text.chars().take(40).collect();
            let names: Vec<_> = Preset::all().iter().map(|preset| preset.0.name).collect();
            InvalidInput::new(format!(
                "`{}` is no library that is known here; there are {}",
                short.escape_debug(),
                names.join(", ")
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_found_by_its_name_and_by_no_other() {
        for preset in Preset::all() {
            assert_eq!(preset.to_string().parse::<Preset>().unwrap(), *preset);
            assert!(!preset.note().is_empty(), "{preset}");
        }
        let refusal = "redis_py\u{1b}".parse::<Preset>().unwrap_err().to_string();
        assert!(refusal.contains("there are bsm-redislock, "), "{refusal}");
        assert!(!refusal.contains('\u{1b}'), "{refusal}");
    }

    #[test]
    fn presets_stand_in_the_order_of_their_names_and_each_once() {
        let names: Vec<_> = Preset::all().iter().map(|preset| preset.0.name).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    }

    #[test]
    fn a_bad_name_is_refused_before_and_after_it_becomes_a_key() {
        for bad in ["", "a\nb", "ll:x"] {
            assert!(Preset::GUIDE.name_for(bad).is_err(), "{bad:?}");
        }
        let longest = "x".repeat(512);
        assert!(Preset::REDSYNC.name_for(&longest).is_ok());
        assert!(Preset::GUIDE.name_for(&longest).is_err());
    }
}
