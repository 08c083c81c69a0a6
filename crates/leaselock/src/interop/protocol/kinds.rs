//! The ways of locking, by name.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

#[cfg(feature = "redis")]
use super::all_or_none;
use super::{python_redis_lock, setex_renamenx};
#[cfg(feature = "redis")]
use super::{redisson, setnx_pexpire};
use crate::base::error::InvalidInput;
use crate::base::name::Name;
#[cfg(feature = "redis")]
use crate::script::Scripts;
use crate::script::keys::MutexKeys;

/// How a lock is taken and given back on the server. All who share a lock use the same way.
///
/// Anything but [`Native`](Protocol::Native) exists to join programs that lock so already, and has the hole of that
/// way, which `docs/protocols.md` shows; it needs a Redis or Valkey server. Behind them there is no line: whoever waits
/// tries again, in order only among the tasks of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Protocol {
    /// `SET NX PX` and scripts that compare: shared with every library that locks by a plain string and compares
    /// before it deletes.
    #[default]
    Native,
    /// `SETNX` of a time, `GETSET` to take over one that has passed. Needs clocks that agree.
    SetnxGetset,
    /// `SETEX` of `<name>:tmp_lock` and `RENAMENX` to `<name>:real_lock` under `MULTI`; `DEL`.
    SetexRenamenx {
        /// So near its end the lock is left to end by itself instead of being deleted, because the request could
        /// arrive after another has taken it.
        latency_guard: Duration,
    },
    /// The same, given back by `WATCH` and `MULTI`, `DEL`, `EXEC` on a connection of its own.
    WatchMulti,
    /// `SETNX` and `PEXPIRE` in one script, for servers from before `SET NX PX`.
    SetnxPexpire,
    /// python-redis-lock: `lock:<name>`, and a list that wakes whoever waits.
    PythonRedisLock,
    /// Redisson's plain lock: a hash, and a channel that wakes whoever waits.
    Redisson,
    /// Several plain keys at once, all or none, as bsm/redislock (Go) and redlock (Node) take several resources. The
    /// note lies in the value, behind the token.
    AllOrNone,
}

/// Every script of the other ways.
#[cfg(feature = "redis")]
pub(crate) const SCRIPTS: [Scripts; 4] = [
    all_or_none::SCRIPTS,
    python_redis_lock::SCRIPTS,
    redisson::SCRIPTS,
    setnx_pexpire::SCRIPTS,
];

/// How near its end a lock that is deleted without a look is left alone, unless set otherwise: longer than a request
/// takes that is not lost.
pub const LATENCY_GUARD: Duration = Duration::from_millis(500);

impl Protocol {
    /// Every one, as it is without settings.
    pub const ALL: [Protocol; 8] = [
        Protocol::Native,
        Protocol::SetnxGetset,
        Protocol::setex_renamenx(),
        Protocol::WatchMulti,
        Protocol::SetnxPexpire,
        Protocol::PythonRedisLock,
        Protocol::Redisson,
        Protocol::AllOrNone,
    ];

    /// [`SetexRenamenx`](Protocol::SetexRenamenx) with a guard of 500 ms.
    pub const fn setex_renamenx() -> Self {
        Protocol::SetexRenamenx {
            latency_guard: LATENCY_GUARD,
        }
    }

    /// What it is called, as in `--protocol`.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Native => "native",
            Protocol::SetnxGetset => "setnx-getset",
            Protocol::SetexRenamenx { .. } => "setex-renamenx",
            Protocol::WatchMulti => "watch-multi",
            Protocol::SetnxPexpire => "setnx-pexpire",
            Protocol::PythonRedisLock => "python-redis-lock",
            Protocol::Redisson => "redisson",
            Protocol::AllOrNone => "all-or-none",
        }
    }

    pub(crate) fn is_native(self) -> bool {
        self == Protocol::Native
    }

    /// The keys of a lock that is taken in this way.
    pub(crate) fn keys(self, prefix: &str, name: &Name) -> Result<MutexKeys, InvalidInput> {
        if self.is_native() {
            return MutexKeys::new(prefix, name);
        }
        MutexKeys::alone(format!("{prefix}{}", self.key(name.as_str())))
    }

    /// What the key of a lock is called there.
    pub(crate) fn key(self, name: &str) -> String {
        match self {
            Protocol::SetexRenamenx { .. } | Protocol::WatchMulti => setex_renamenx::key(name),
            Protocol::PythonRedisLock => python_redis_lock::key(name),
            _ => name.to_owned(),
        }
    }

    /// Why its locks cannot be extended and so not renewed; `None` when they can.
    pub(crate) fn why_no_renewal(self) -> Option<&'static str> {
        match self {
            Protocol::SetnxGetset => {
                Some("the time in the value is all that a holder has, and others take over by it")
            }
            Protocol::SetexRenamenx { .. } | Protocol::WatchMulti => {
                Some("the way has no step that makes the time longer and makes sure whose it is")
            }
            _ => None,
        }
    }

    /// Each of its requests is about keys that share a slot, and needs no connection of its own. The resources of
    /// [`AllOrNone`](Protocol::AllOrNone) do when their names say so.
    pub(crate) fn lies_in_one_slot(self) -> bool {
        !matches!(
            self,
            Protocol::SetexRenamenx { .. } | Protocol::WatchMulti | Protocol::PythonRedisLock
        )
    }

    /// It counts in whole seconds.
    pub(crate) fn whole_seconds(self) -> bool {
        matches!(self, Protocol::SetexRenamenx { .. } | Protocol::WatchMulti)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Protocol {
    type Err = InvalidInput;

    fn from_str(name: &str) -> Result<Self, InvalidInput> {
        let known = Protocol::ALL.into_iter().find(|one| one.name() == name);
        known.ok_or_else(|| {
            let names: Vec<&str> = Protocol::ALL.iter().map(|one| one.name()).collect();
            InvalidInput::new(format!(
                "there is no protocol of this name; there are {}",
                names.join(", ")
            ))
        })
    }
}
