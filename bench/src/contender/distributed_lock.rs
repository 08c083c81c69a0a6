//! distributed-lock (its Redis part): it does not wait, so it is measured where nobody must.

use distributed_lock_core::traits::{DistributedLock as _, LockHandle as _, LockProvider as _};
use distributed_lock_redis::{RedisDistributedLock, RedisLockProvider};

use super::{Contender, Hold, Lock, Setup, Turn, held, text};

pub struct DistributedLock(RedisLockProvider);

impl Contender for DistributedLock {
    type Lock = DistributedLockLock;

    async fn connect(setup: &Setup) -> Result<Self, String> {
        let provider = RedisLockProvider::new(setup.url()).await.map_err(text)?;
        Ok(DistributedLock(provider))
    }

    fn lock(&self, name: &str) -> DistributedLockLock {
        DistributedLockLock(self.0.create_lock(name))
    }
}

pub struct DistributedLockLock(RedisDistributedLock);

impl Lock for DistributedLockLock {
    async fn turn(&mut self, hold: &Hold) -> Result<Turn, String> {
        let handle = self.0.try_acquire().await.map_err(text)?.ok_or("busy")?;
        let turn = held(hold.clone()).await;
        handle.release().await.map_err(text)?;
        Ok(turn)
    }
}
