//! One acquisition in a protocol other than the native one: its value, and how it is taken, extended and released.

use std::sync::Arc;
use std::time::Duration;

use super::calls::{ExtendForeign, ForeignFor, HeldForeign, ReleaseForeign, TakeForeign};
use super::{
    Protocol, python_redis_lock, redisson, release_signal, setex_renamenx, setnx_getset,
    setnx_pexpire, watch_multi,
};
use crate::base::{Result, StoreError, Ttl, debug_as};
use crate::engine::values::calls::{CompareAndDelete, Extend};
use crate::engine::values::custom::{
    BoxFuture, Connections, CustomLock, CustomProtocol, LockReply, LockServer, OwnConnection,
    ReleaseSignal, TakeOutcome,
};
use crate::engine::values::grant::{ExtendAnswer, ReleaseAnswer};
use crate::engine::values::kind::{Held, HeldFor};
use crate::quorum::executor::Executor;

/// One acquisition, created before its request is sent, with a value of its own.
pub(crate) struct ForeignLock {
    protocol: Protocol,
    held: Held,
    /// The value, in a protocol with its own values. A secret like the token.
    value: Option<String>,
    /// The list that wakes other waiters, where the protocol has one.
    signal: Option<Arc<str>>,
    /// The connection that releases it, where the protocol needs a dedicated one.
    line: Option<Arc<OwnConnection>>,
}

/// The lock of one name in another library's protocol.
#[derive(Debug)]
pub(crate) struct Custom {
    protocol: Protocol,
    prefix: String,
}

impl Custom {
    /// Returns the lock in this protocol, which is not the native one.
    pub(crate) fn of(protocol: Protocol, prefix: &str) -> Arc<dyn CustomProtocol> {
        let prefix = prefix.to_owned();
        Arc::new(Custom { protocol, prefix })
    }
}

impl CustomProtocol for Custom {
    fn prepare<'a>(
        &'a self,
        HeldFor { held, ttl }: HeldFor<'a>,
        before: Option<Arc<dyn CustomLock>>,
        connections: &'a Connections,
        within: Duration,
    ) -> LockReply<'a, Arc<dyn CustomLock>> {
        Box::pin(async move {
            let protocol = self.protocol;
            let value = match protocol {
                Protocol::SetnxGetset => Some(setnx_getset::value(ttl)),
                Protocol::Redisson => Some(redisson::holder().map_err(StoreError::no_random)?),
                _ => None,
            };
            let is_python = protocol == Protocol::PythonRedisLock;
            let signal = is_python
                .then(|| python_redis_lock::signal(&self.prefix, &held.resource.lock).into());
            let line = match before.and_then(|before| before.connection()) {
                None if protocol == Protocol::WatchMulti => {
                    Some(Arc::new(watch_multi::open(connections, within).await?))
                }
                line => line,
            };
            let lock: Arc<dyn CustomLock> = Arc::new(ForeignLock {
                protocol,
                held: held.clone(),
                value,
                signal,
                line,
            });
            Ok(lock)
        })
    }
}

/// Wakes a waiter of a lock that an operator has freed, where the protocol wakes one alone.
pub(crate) async fn wake_one(protocol: Protocol, store: &Executor, prefix: &str, lock: &str) {
    if protocol == Protocol::PythonRedisLock {
        let list = python_redis_lock::signal(prefix, lock);
        release_signal::push(store, &list).await;
    }
}

impl ForeignLock {
    fn value(&self) -> &str {
        self.value.as_deref().unwrap_or(self.held.token.secret())
    }

    fn at_key(&self) -> HeldForeign<'_> {
        let (lock, value) = (self.lock(), self.value());
        HeldForeign { lock, value }
    }

    /// Releases it by comparing, also when an operator has broken it: then it is there under another token.
    async fn release_own(&self, server: LockServer<'_>) -> Result<ReleaseAnswer> {
        let reply = self.release_as(self.value(), server).await?;
        self.unless_broken(reply, server).await
    }

    async fn unless_broken(
        &self,
        reply: ReleaseAnswer,
        server: LockServer<'_>,
    ) -> Result<ReleaseAnswer> {
        if reply != ReleaseAnswer::Taken || self.value.is_some() {
            return Ok(reply);
        }
        let broken = self.held.token.broken();
        let broken = self.release_as(broken.secret(), server).await?;
        Ok(match broken {
            ReleaseAnswer::Released => broken,
            ReleaseAnswer::Expired | ReleaseAnswer::Taken => reply,
        })
    }

    async fn release_as(&self, value: &str, server: LockServer<'_>) -> Result<ReleaseAnswer> {
        let lock = self.lock();
        let (script, channel) = match self.protocol {
            Protocol::PythonRedisLock => (&python_redis_lock::RELEASE_FOREIGN, None),
            Protocol::Redisson => (&redisson::RELEASE_FOREIGN, Some(redisson::channel(lock))),
            _ => return server.run(&CompareAndDelete { lock, value }).await,
        };
        let release = ReleaseForeign {
            script,
            held: HeldForeign { lock, value },
            signal: self.signal.as_deref(),
            channel,
        };
        server.run(&release).await
    }
}

impl CustomLock for ForeignLock {
    fn protocol(&self) -> &'static str {
        self.protocol.name()
    }

    fn why_no_renewal(&self) -> Option<&'static str> {
        self.protocol.why_no_renewal()
    }

    fn lock(&self) -> &str {
        &self.held.resource.lock
    }

    fn connection(&self) -> Option<Arc<OwnConnection>> {
        self.line.clone()
    }

    fn take<'a>(&'a self, server: LockServer<'a>, ttl: Ttl) -> LockReply<'a, TakeOutcome> {
        let (lock, value) = (self.lock(), self.value());
        Box::pin(async move {
            let script = match self.protocol {
                Protocol::SetnxGetset => return setnx_getset::take(server, lock, value).await,
                Protocol::SetexRenamenx { .. } | Protocol::WatchMulti => {
                    return setex_renamenx::take(server, lock, value, ttl).await;
                }
                Protocol::Redisson => &redisson::TAKE_FOREIGN,
                // This grant equals that of `SET` with `NX` and `PX`.
                Protocol::SetnxPexpire | Protocol::PythonRedisLock | Protocol::Native => {
                    &setnx_pexpire::TAKE_FOREIGN
                }
            };
            let held = self.at_key();
            let held_for = ForeignFor { held, ttl };
            server.run(&TakeForeign { script, held_for }).await
        })
    }

    fn extends_itself(&self) -> bool {
        self.protocol == Protocol::Redisson
    }

    fn extend<'a>(&'a self, server: LockServer<'a>, ttl: Ttl) -> LockReply<'a, ExtendAnswer> {
        Box::pin(async move {
            if self.extends_itself() {
                let (script, held) = (&redisson::EXTEND_FOREIGN, self.at_key());
                let held_for = ForeignFor { held, ttl };
                return server.run(&ExtendForeign { script, held_for }).await;
            }
            let held_for = self.held.for_ttl(ttl);
            server.run(&Extend { held_for }).await
        })
    }

    fn release<'a>(
        &'a self,
        server: LockServer<'a>,
        left: Duration,
    ) -> LockReply<'a, ReleaseAnswer> {
        let (lock, value) = (self.lock(), self.value());
        Box::pin(async move {
            match (self.protocol, &self.line) {
                (Protocol::SetnxGetset, _) => setnx_getset::release(server, lock, value).await,
                (Protocol::SetexRenamenx { latency_guard }, _) => {
                    setex_renamenx::release(server, lock, left, latency_guard).await
                }
                (Protocol::WatchMulti, Some(line)) => {
                    let reply = watch_multi::release(line, lock, value, server.within).await?;
                    self.unless_broken(reply, server).await
                }
                _ => self.release_own(server).await,
            }
        })
    }

    fn clean_up<'a>(&'a self, server: LockServer<'a>) -> LockReply<'a, ()> {
        Box::pin(async move { self.release_own(server).await.map(drop) })
    }

    fn listen<'a>(
        &'a self,
        connections: &'a Connections,
        within: Duration,
    ) -> BoxFuture<'a, Option<Box<dyn ReleaseSignal>>> {
        Box::pin(release_signal::listen(
            connections,
            self.protocol,
            self.lock(),
            self.signal.as_deref(),
            within,
        ))
    }
}

// The value is a secret.
debug_as!(ForeignLock, it => "ForeignLock({} {})", it.protocol, it.held.resource.lock);
