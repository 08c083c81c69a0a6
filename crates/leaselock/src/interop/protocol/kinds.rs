//! The ways of locking, by name.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use leaselock_fence::Name;

use super::{python_redis_lock, redisson, setex_renamenx, setnx_pexpire};
use crate::base::error::InvalidInput;
use crate::engine::services::core::Engine;
use crate::engine::values::calls::COMPARE_AND_DELETE;
use crate::script::{LockKeys, Scripts};

/// The protocol of a lock on the server. All clients that share a lock use the same one.
///
/// The others than [`Native`](Protocol::Native) are for programs that share a lock with programs that use that protocol
/// already. None of them has fencing tokens, and each has a hole of its own. They are for a [`Mutex`](crate::Mutex) on a
/// Redis or Valkey server. They have no queue: waiters retry, in order only among the tasks of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Protocol {
    /// `SET NX PX` and scripts that compare.
    ///
    /// Shared with every library that locks by a plain string and compares before it deletes.
    #[default]
    Native,
    /// `SETNX` of a time, `GETSET` to take over one that has passed. Needs clocks that agree.
    SetnxGetset,
    /// `SETEX` of `<name>:tmp_lock` and `RENAMENX` to `<name>:real_lock` under `MULTI`; `DEL`.
    SetexRenamenx {
        /// When less time than this remains, the client does not delete the lock and lets it expire.
        ///
        /// The request to delete could arrive after another client has taken the lock.
        latency_guard: Duration,
    },
    /// The same, released by `WATCH` and `MULTI`, `DEL`, `EXEC` on a dedicated connection.
    WatchMulti,
    /// `SETNX` and `PEXPIRE` in one script, for servers from before `SET NX PX`.
    SetnxPexpire,
    /// python-redis-lock: `lock:<name>`, and a list that wakes waiters.
    PythonRedisLock,
    /// Redisson's plain lock: a hash, and a channel that wakes waiters.
    Redisson,
}

/// Every script of these protocols.
pub(crate) static SCRIPTS: Scripts = &[
    &python_redis_lock::RELEASE_FOREIGN,
    &redisson::TAKE_FOREIGN,
    &redisson::EXTEND_FOREIGN,
    &redisson::RELEASE_FOREIGN,
    &setnx_pexpire::TAKE_FOREIGN,
    &COMPARE_AND_DELETE,
];

/// The default guard of protocols that delete without comparing: longer than a request takes that is not lost.
///
/// When the lock expires within this time, the client does not delete it and lets it expire.
pub const DEFAULT_LATENCY_GUARD: Duration = Duration::from_millis(500);

impl Protocol {
    /// Every protocol with its default settings.
    pub const ALL: [Protocol; 7] = [
        Protocol::Native,
        Protocol::SetnxGetset,
        Protocol::setex_renamenx(),
        Protocol::WatchMulti,
        Protocol::SetnxPexpire,
        Protocol::PythonRedisLock,
        Protocol::Redisson,
    ];

    /// [`SetexRenamenx`](Protocol::SetexRenamenx) with a guard of 500 ms.
    pub const fn setex_renamenx() -> Self {
        Protocol::SetexRenamenx {
            latency_guard: DEFAULT_LATENCY_GUARD,
        }
    }

    /// Returns its name, as in `--protocol`.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Native => "native",
            Protocol::SetnxGetset => "setnx-getset",
            Protocol::SetexRenamenx { .. } => "setex-renamenx",
            Protocol::WatchMulti => "watch-multi",
            Protocol::SetnxPexpire => "setnx-pexpire",
            Protocol::PythonRedisLock => "python-redis-lock",
            Protocol::Redisson => "redisson",
        }
    }

    /// Returns the keys of a lock of another library.
    pub(crate) fn keys(self, prefix: &str, name: &Name) -> Result<LockKeys, InvalidInput> {
        LockKeys::alone(format!("{prefix}{}", self.key(name.as_str())))
    }

    /// Returns the name under which leaselock knows the lock that is called `name` in this protocol.
    ///
    /// It is the lock's key, as [`inspect`](crate::Client::inspect) and [`break_lease`](crate::Client::break_lease) have it.
    ///
    /// # Errors
    /// [`InvalidInput`] when either of the two is not a valid name.
    pub fn name_for(self, name: &str) -> Result<Name, InvalidInput> {
        Name::new(self.key(Name::new(name)?.as_str()))
    }

    fn key(self, name: &str) -> String {
        match self {
            Protocol::SetexRenamenx { .. } | Protocol::WatchMulti => setex_renamenx::key(name),
            Protocol::PythonRedisLock => python_redis_lock::key(name),
            _ => name.to_owned(),
        }
    }

    /// Says why its locks cannot be extended and so not renewed; `None` when they can.
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

    /// True if each request's keys share a slot, and no request needs a dedicated connection.
    pub(crate) fn lies_in_one_slot(self) -> bool {
        !matches!(
            self,
            Protocol::SetexRenamenx { .. } | Protocol::WatchMulti | Protocol::PythonRedisLock
        )
    }

    /// Refuses other libraries' protocols without a shared server.
    pub(crate) fn check(self, engine: &Engine) -> Result<(), InvalidInput> {
        if engine.store.is_cluster() && !self.lies_in_one_slot() {
            return Err(InvalidInput::new(format!(
                "the protocol {self} needs keys that a cluster may keep on different nodes: use another protocol, \
                     or a server that is no cluster"
            )));
        }
        if self == Protocol::Native {
            return Ok(());
        }
        if engine.strict.is_some() {
            return Err(InvalidInput::new(format!(
                "the protocol {self} has no strict mode, because the others who take its locks ask no gate: use the \
                     native protocol, or a client without `strict`"
            )));
        }
        if engine.store.capabilities().has_commands {
            return Ok(());
        }
        Err(InvalidInput::new(format!(
            "the protocol {self} is for locks in Redis or Valkey that other programs take too, and this is {}: use \
                 the native protocol here, or a redis:// URL",
            engine.store.describe()
        ))
        .because("other programs take locks of this protocol on one server"))
    }

    /// True if it counts in whole seconds.
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
