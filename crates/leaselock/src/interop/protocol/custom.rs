//! One taking of a lock in another way than the native one: what is written, and how it is taken, kept and given back.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::all_or_none;
use super::all_or_none::Locks;
#[cfg(feature = "redis")]
use super::watch_multi;
#[cfg(feature = "redis")]
use super::watch_multi::Line;
use super::{Protocol, python_redis_lock, redisson, setex_renamenx, setnx_getset, setnx_pexpire};
use crate::base::error::{ErrorKind, StoreError};
use crate::base::token::Token;
use crate::base::ttl::Ttl;
use crate::client::Inner;
use crate::client::options::Options;
use crate::engine::calls::{Extend, ExtendAnswer, ReleaseAnswer};
use crate::quorum::executor::Executor;
use crate::script::keys;
use crate::script::keys::MutexKeys;

/// What one try came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakeOutcome {
    Taken,
    /// Another has it; until when, if that is known.
    Busy {
        remaining: Option<Duration>,
    },
}

/// One taking. It is made before its request is sent, and its value is its own.
pub(crate) struct ForeignLock {
    protocol: Protocol,
    keys: MutexKeys,
    token: Token,
    /// Those that are taken along.
    others: Vec<Arc<str>>,
    /// What is written where the way has values of its own. A secret like the token.
    value: Option<String>,
    /// The list that wakes others, where there is one.
    signal: Option<String>,
    /// The connection with which it is given back, where the way needs one of its own.
    #[cfg(feature = "redis")]
    line: Option<Arc<Line>>,
}

/// What is to be taken.
pub(crate) struct TakeRequest<'a> {
    pub(crate) keys: &'a MutexKeys,
    pub(crate) token: &'a Token,
    pub(crate) ttl: Ttl,
    pub(crate) options: &'a Options,
    /// Of an earlier try, which held nothing.
    #[cfg_attr(
        not(feature = "redis"),
        expect(dead_code, reason = "for its connection")
    )]
    pub(crate) before: Option<Arc<ForeignLock>>,
}

impl ForeignLock {
    /// `None` for the native way, which needs none.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) async fn new(
        inner: &Inner,
        asked: TakeRequest<'_>,
        within: Duration,
    ) -> Result<Option<Arc<Self>>, StoreError> {
        let TakeRequest {
            keys, token, ttl, ..
        } = asked;
        let protocol = asked.options.protocol;
        if protocol.is_native() {
            return Ok(None);
        }
        let others = keys::others(&inner.prefix, &asked.options.others);
        let others = others
            .map_err(|error| StoreError::refused(ErrorKind::Unsupported, error.to_string()))?;
        let value = match protocol {
            Protocol::SetnxGetset => Some(setnx_getset::value(ttl)),
            Protocol::Redisson => Some(redisson::holder().map_err(StoreError::no_random)?),
            Protocol::AllOrNone => Some(all_or_none::value(token, asked.options.why.as_deref())),
            _ => None,
        };
        let is_python = protocol == Protocol::PythonRedisLock;
        let signal = is_python.then(|| python_redis_lock::signal(&inner.prefix, &keys.lock));
        #[cfg(feature = "redis")]
        let line = match asked.before.and_then(|before| before.line.clone()) {
            None if protocol == Protocol::WatchMulti => {
                Some(Arc::new(Line::open(inner, within).await?))
            }
            line => line,
        };
        Ok(Some(Arc::new(ForeignLock {
            protocol,
            keys: keys.clone(),
            token: token.clone(),
            others,
            value,
            signal,
            #[cfg(feature = "redis")]
            line,
        })))
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub(crate) fn lock(&self) -> &str {
        &self.keys.lock
    }

    /// The list that wakes others, where there is one.
    pub(crate) fn signal(&self) -> Option<&str> {
        self.signal.as_deref()
    }

    fn value(&self) -> &str {
        self.value.as_deref().unwrap_or(self.token.secret())
    }

    fn locks(&self) -> Locks<'_> {
        Locks {
            first: &self.keys.lock,
            others: &self.others,
            value: self.value(),
        }
    }

    /// Takes the lock if it is free. Again with the same claim: it is not taken twice, but may be told "busy".
    pub(crate) async fn take(
        &self,
        store: &Executor,
        ttl: Ttl,
        within: Duration,
    ) -> Result<TakeOutcome, StoreError> {
        let (lock, value) = (&*self.keys.lock, self.value());
        match self.protocol {
            Protocol::SetnxGetset => setnx_getset::take(store, lock, value, within).await,
            Protocol::SetexRenamenx { .. } | Protocol::WatchMulti => {
                setex_renamenx::take(store, lock, value, ttl, within).await
            }
            Protocol::AllOrNone => self.locks().take(store, ttl, within).await,
            Protocol::Redisson => redisson::take(store, lock, value, ttl, within).await,
            // Nobody can tell it from `SET` with `NX` and `PX`.
            Protocol::SetnxPexpire | Protocol::PythonRedisLock | Protocol::Native => {
                setnx_pexpire::take(store, lock, value, ttl, within).await
            }
        }
    }

    /// It is renewed by a request of its own: the others hold a token at their key, as the native way does.
    pub(crate) fn extends_itself(&self) -> bool {
        matches!(self.protocol, Protocol::Redisson | Protocol::AllOrNone)
    }

    /// Makes its time whole again.
    pub(crate) async fn extend(
        &self,
        store: &Executor,
        ttl: Ttl,
        within: Duration,
    ) -> Result<ExtendAnswer, StoreError> {
        match self.protocol {
            Protocol::AllOrNone => return self.locks().extend(store, ttl, within).await,
            Protocol::Redisson => {
                return redisson::extend(store, &self.keys.lock, self.value(), ttl, within).await;
            }
            _ => {}
        }
        let extend = Extend {
            keys: &self.keys,
            token: &self.token,
            ttl,
        };
        store.ask(&extend, within).await
    }

    /// Gives it back as the way does it. `left`: of the lease, by our own clock.
    pub(crate) async fn release(
        &self,
        store: &Executor,
        left: Duration,
        within: Duration,
    ) -> Result<ReleaseAnswer, StoreError> {
        let (lock, value) = (&*self.keys.lock, self.value());
        match self.protocol {
            Protocol::SetnxGetset => setnx_getset::release(store, lock, value, within).await,
            Protocol::SetexRenamenx { latency_guard } => {
                setex_renamenx::release(store, lock, left, latency_guard, within).await
            }
            #[cfg(feature = "redis")]
            Protocol::WatchMulti => match &self.line {
                Some(line) => watch_multi::release(line, lock, value, within).await,
                None => self.release_own(store, within).await,
            },
            _ => self.release_own(store, within).await,
        }
    }

    /// Takes away what may be left of it, whatever became of its requests: compares first, in every way.
    pub(crate) async fn clean_up(
        &self,
        store: &Executor,
        within: Duration,
    ) -> Result<(), StoreError> {
        self.release_own(store, within).await.map(drop)
    }

    async fn release_own(
        &self,
        store: &Executor,
        within: Duration,
    ) -> Result<ReleaseAnswer, StoreError> {
        let (lock, value) = (&*self.keys.lock, self.value());
        match self.protocol {
            Protocol::PythonRedisLock => {
                let signal = self.signal.as_deref().unwrap_or_default();
                python_redis_lock::release(store, lock, signal, value, within).await
            }
            Protocol::AllOrNone => self.locks().release(store, within).await,
            Protocol::Redisson => redisson::release(store, lock, value, within).await,
            _ => setnx_pexpire::release(store, lock, value, within).await,
        }
    }
}

/// The value is a secret.
impl fmt::Debug for ForeignLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForeignLock({} {})", self.protocol, self.keys.lock)
    }
}
