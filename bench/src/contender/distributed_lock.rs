//! distributed-lock (its Redis part). Its mutex does not wait, so it is measured where no task must. Nor do its readers:
//! they ask again here after the 50 ms that its writers begin with. Writers and permits wait in its own way.

use std::time::Duration;

use distributed_lock_core::error::LockError;
use distributed_lock_core::traits::{
    DistributedLock as _, DistributedReaderWriterLock as _, DistributedSemaphore as _,
    LockHandle as _, LockProvider as _, ReaderWriterLockProvider as _, SemaphoreProvider as _,
};
use distributed_lock_redis::{
    RedisDistributedLock, RedisDistributedReaderWriterLock, RedisDistributedSemaphore,
    RedisLockProvider,
};

use super::{Contender, Hold, Lock, Setup, Turn, Want, held, text};

const BETWEEN_TRIES: Duration = Duration::from_millis(50);

pub struct DistributedLock(RedisLockProvider);

impl Contender for DistributedLock {
    type Lock = DistributedLockLock;

    async fn connect(setup: &Setup) -> Result<Self, String> {
        let provider = RedisLockProvider::new(setup.url()).await.map_err(text)?;
        Ok(DistributedLock(provider))
    }

    fn lock(&self, name: &str) -> DistributedLockLock {
        DistributedLockLock::Mutex(self.0.create_lock(name))
    }

    fn wanting(&self, name: &str, want: Want) -> Option<DistributedLockLock> {
        let provider = &self.0;
        Some(match want {
            Want::Mutex => self.lock(name),
            Want::Read => DistributedLockLock::Read(provider.create_reader_writer_lock(name)),
            Want::Write => DistributedLockLock::Write(provider.create_reader_writer_lock(name)),
            Want::Permits { take: 1, of } => {
                DistributedLockLock::Permit(provider.create_semaphore(name, of))
            }
            _ => return None,
        })
    }
}

pub enum DistributedLockLock {
    Mutex(RedisDistributedLock),
    Read(RedisDistributedReaderWriterLock),
    Write(RedisDistributedReaderWriterLock),
    Permit(RedisDistributedSemaphore),
}

impl Lock for DistributedLockLock {
    async fn turn(&mut self, hold: &Hold) -> Result<Turn, String> {
        match self {
            DistributedLockLock::Mutex(lock) => {
                let handle = lock.try_acquire().await.map_err(text)?.ok_or("busy")?;
                let turn = held(hold.clone()).await;
                handle.release().await.map_err(text)?;
                Ok(turn)
            }
            DistributedLockLock::Read(lock) => {
                let handle = loop {
                    match lock.acquire_read(None).await {
                        Err(LockError::Timeout(_)) => tokio::time::sleep(BETWEEN_TRIES).await,
                        outcome => break outcome.map_err(text)?,
                    }
                };
                let turn = held(hold.clone()).await;
                handle.release().await.map_err(text)?;
                Ok(turn)
            }
            DistributedLockLock::Write(lock) => {
                let handle = lock.acquire_write(None).await.map_err(text)?;
                let turn = held(hold.clone()).await;
                handle.release().await.map_err(text)?;
                Ok(turn)
            }
            DistributedLockLock::Permit(semaphore) => {
                let handle = semaphore.acquire(None).await.map_err(text)?;
                let turn = held(hold.clone()).await;
                handle.release().await.map_err(text)?;
                Ok(turn)
            }
        }
    }
}
