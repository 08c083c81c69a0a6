//! redis-lock: `lock_across` on one connection behind a mutex, as its documentation has it. Its
//! lease is 10 ms by default, which a slow round would outlast, so it gets the lease of the others.

use redis_0_27::aio::MultiplexedConnection;
use redis_lock::LockAcrossOptions;
use std::sync::Arc;

use super::{Contender, Hold, Lock, Setup, TTL, Turn, held, text};

type Shared = Arc<tokio::sync::Mutex<MultiplexedConnection>>;

pub struct RedisLock(Shared);

impl Contender for RedisLock {
    type Lock = RedisLockLock;

    async fn connect(setup: &Setup) -> Result<Self, String> {
        let client = redis_0_27::Client::open(setup.url()).map_err(text)?;
        let connection = client
            .get_multiplexed_async_connection()
            .await
            .map_err(text)?;
        Ok(RedisLock(Arc::new(tokio::sync::Mutex::new(connection))))
    }

    fn lock(&self, name: &str) -> RedisLockLock {
        RedisLockLock {
            connection: [self.0.clone()],
            name: name.to_owned(),
        }
    }
}

pub struct RedisLockLock {
    connection: [Shared; 1],
    name: String,
}

impl Lock for RedisLockLock {
    async fn turn(&mut self, hold: &Hold) -> Result<Turn, String> {
        let options = LockAcrossOptions {
            ttl: TTL,
            ..LockAcrossOptions::default()
        };
        redis_lock::lock_across(&self.connection, &self.name, held(hold.clone()), options)
            .await
            .map_err(text)
    }
}
