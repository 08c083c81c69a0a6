//! redlock: blocking, with a new connection for every request; a quorum of as many servers as it is given.

use redlock::RedLock;
use std::sync::Arc;

use super::{Contender, Hold, Lock, Setup, TTL, Turn, text};
use crate::clock::now_ns;

pub struct Redlock(Arc<RedLock>);

impl Contender for Redlock {
    type Lock = RedlockLock;

    async fn connect(setup: &Setup) -> Result<Self, String> {
        Ok(Redlock(Arc::new(RedLock::new(setup.urls.clone()))))
    }

    fn lock(&self, name: &str) -> RedlockLock {
        RedlockLock {
            manager: self.0.clone(),
            name: Arc::from(name.as_bytes()),
        }
    }
}

pub struct RedlockLock {
    manager: Arc<RedLock>,
    name: Arc<[u8]>,
}

impl Lock for RedlockLock {
    async fn turn(&mut self, hold: &Hold) -> Result<Turn, String> {
        let (manager, name, span) = (self.manager.clone(), self.name.clone(), hold.span);
        let blocking = move || {
            let guard = manager
                .acquire(&name, TTL.as_millis() as usize)
                .map_err(text)?;
            let granted_ns = now_ns();
            if !span.is_zero() {
                std::thread::sleep(span);
            }
            let releasing_ns = now_ns();
            drop(guard);
            Ok(Turn {
                granted_ns,
                releasing_ns,
                queued_ns: 0,
                mark: 0,
            })
        };
        tokio::task::spawn_blocking(blocking).await.map_err(text)?
    }
}
