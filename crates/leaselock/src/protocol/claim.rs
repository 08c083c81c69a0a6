//! One taking of a lock in another way than the native one: what is written, and how it is taken, kept and given back.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::client::Inner;
use crate::error::StoreError;
use crate::keys::MutexKeys;
use crate::mutex::steps::{Extend, ExtendAnswer, ReleaseAnswer};
#[cfg(feature = "redis")]
use crate::protocol::watch_multi::{self, Line};
use crate::protocol::{
    Protocol, python_redis_lock, redisson, setex_renamenx, setnx_getset, setnx_pexpire,
};
use crate::store::Store;
use crate::token::Token;
use crate::ttl::Ttl;

/// What one try came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Try {
    Taken,
    /// Another has it; until when, if that is known.
    Busy {
        remaining: Option<Duration>,
    },
}

/// One taking. It is made before its request is sent, and its value is its own.
pub(crate) struct Claim {
    protocol: Protocol,
    keys: MutexKeys,
    token: Token,
    /// What is written where the way has values of its own. A secret like the token.
    value: Option<String>,
    /// The list that wakes others, where there is one.
    signal: Option<String>,
    /// The connection with which it is given back, where the way needs one of its own.
    #[cfg(feature = "redis")]
    line: Option<Arc<Line>>,
}

impl Claim {
    /// `None` for the native way, which needs none. `before`: of an earlier try, which held nothing.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) async fn new(
        inner: &Inner,
        protocol: Protocol,
        keys: &MutexKeys,
        token: &Token,
        ttl: Ttl,
        before: Option<Arc<Self>>,
        within: Duration,
    ) -> Result<Option<Arc<Self>>, StoreError> {
        if protocol.is_native() {
            return Ok(None);
        }
        let value = match protocol {
            Protocol::SetnxGetset => Some(setnx_getset::value(ttl)),
            Protocol::Redisson => Some(redisson::holder().map_err(StoreError::no_random)?),
            _ => None,
        };
        let is_python = protocol == Protocol::PythonRedisLock;
        let signal = is_python.then(|| python_redis_lock::signal(&inner.prefix, &keys.lock));
        #[cfg(feature = "redis")]
        let line = match before.and_then(|before| before.line.clone()) {
            None if protocol == Protocol::WatchMulti => {
                Some(Arc::new(Line::open(inner, within).await?))
            }
            line => line,
        };
        Ok(Some(Arc::new(Claim {
            protocol,
            keys: keys.clone(),
            token: token.clone(),
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

    /// Takes the lock if it is free. Again with the same claim: it is not taken twice, but may be told "busy".
    pub(crate) async fn take(
        &self,
        store: &Store,
        ttl: Ttl,
        within: Duration,
    ) -> Result<Try, StoreError> {
        let (lock, value) = (&*self.keys.lock, self.value());
        match self.protocol {
            Protocol::SetnxGetset => setnx_getset::take(store, lock, value, within).await,
            Protocol::SetexRenamenx { .. } | Protocol::WatchMulti => {
                setex_renamenx::take(store, lock, value, ttl, within).await
            }
            Protocol::Redisson => redisson::take(store, lock, value, ttl, within).await,
            // Nobody can tell it from `SET` with `NX` and `PX`.
            Protocol::SetnxPexpire | Protocol::PythonRedisLock | Protocol::Native => {
                setnx_pexpire::take(store, lock, value, ttl, within).await
            }
        }
    }

    /// It is renewed by a request of its own: the others hold a token at their key, as the native way does.
    pub(crate) fn extends_itself(&self) -> bool {
        self.protocol == Protocol::Redisson
    }

    /// Makes its time whole again.
    pub(crate) async fn extend(
        &self,
        store: &Store,
        ttl: Ttl,
        within: Duration,
    ) -> Result<ExtendAnswer, StoreError> {
        if self.extends_itself() {
            return redisson::extend(store, &self.keys.lock, self.value(), ttl, within).await;
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
        store: &Store,
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
    pub(crate) async fn clean_up(&self, store: &Store, within: Duration) -> Result<(), StoreError> {
        self.release_own(store, within).await.map(drop)
    }

    async fn release_own(
        &self,
        store: &Store,
        within: Duration,
    ) -> Result<ReleaseAnswer, StoreError> {
        let (lock, value) = (&*self.keys.lock, self.value());
        match self.protocol {
            Protocol::PythonRedisLock => {
                let signal = self.signal.as_deref().unwrap_or_default();
                python_redis_lock::release(store, lock, signal, value, within).await
            }
            Protocol::Redisson => redisson::release(store, lock, value, within).await,
            _ => setnx_pexpire::release(store, lock, value, within).await,
        }
    }
}

/// The value is a secret.
impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Claim({} {})", self.protocol, self.keys.lock)
    }
}
