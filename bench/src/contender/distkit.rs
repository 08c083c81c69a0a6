//! distkit: its read-write lock, which waits by asking again every 50 ms; and its strict counter.

use distkit::DistkitRedisKey;
use distkit::counter::{CounterOptions, CounterTrait as _, StrictCounter};
use distkit::lock::{LockOptions, RwLock};
use redis::aio::ConnectionManager;
use std::sync::Arc;

use super::{Contender, Hold, Lock, Setup, TTL, Turn, Want, bare_client, held, text};

pub struct Distkit(ConnectionManager);

impl Contender for Distkit {
    type Lock = DistkitLock;

    async fn connect(setup: &Setup) -> Result<Self, String> {
        let client = bare_client(setup.url())?;
        let connection = client.get_connection_manager().await;
        Ok(Distkit(connection.map_err(text)?))
    }

    fn lock(&self, name: &str) -> DistkitLock {
        DistkitLock::Writes(self.rwlock(name))
    }

    fn wanting(&self, name: &str, want: Want) -> Option<DistkitLock> {
        match want {
            Want::Read => Some(DistkitLock::Reads(self.rwlock(name))),
            Want::Write => Some(self.lock(name)),
            Want::Count => Some(DistkitLock::Counts(self.counter(), key(name))),
            _ => None,
        }
    }
}

impl Distkit {
    fn rwlock(&self, name: &str) -> Arc<RwLock> {
        let options = LockOptions::builder(key(name), self.0.clone()).ttl(TTL);
        RwLock::new(options.build())
    }

    /// All counters of a program lie in one hash.
    fn counter(&self) -> Arc<StrictCounter> {
        StrictCounter::new(CounterOptions::new(key("counters"), self.0.clone()))
    }
}

/// The names are ours, and have no colon.
fn key(name: &str) -> DistkitRedisKey {
    DistkitRedisKey::new_or_panic(name.to_owned())
}

pub enum DistkitLock {
    Reads(Arc<RwLock>),
    Writes(Arc<RwLock>),
    Counts(Arc<StrictCounter>, DistkitRedisKey),
}

impl Lock for DistkitLock {
    async fn turn(&mut self, hold: &Hold) -> Result<Turn, String> {
        match self {
            DistkitLock::Counts(counter, key) => {
                counter.inc(key, 1).await.map_err(text)?;
                Ok(Turn::ended(0))
            }
            DistkitLock::Writes(lock) => {
                let guard = lock.write().await.map_err(text)?;
                let turn = held(hold.clone()).await;
                guard.release().await.map_err(text)?;
                Ok(turn)
            }
            DistkitLock::Reads(lock) => {
                let guard = lock.read().await.map_err(text)?;
                let turn = held(hold.clone()).await;
                guard.release().await.map_err(text)?;
                Ok(turn)
            }
        }
    }
}
