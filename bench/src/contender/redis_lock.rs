//! redis-lock: `lock_across` on one connection behind a mutex, as its documentation has it; several names by its
//! `MultiResourceLock`, which waits by asking again every second. Its lease is 10 ms by default, which a slow round would
//! outlast, so it gets the lease of the others.

use redis_0_27::Client;
use redis_0_27::aio::MultiplexedConnection;
use redis_lock::{DEFAULT_SLEEP, DEFAULT_TIMEOUT, LockAcrossOptions, MultiResourceLock};
use std::sync::Arc;

use super::want::{Draw, names};
use super::{Contender, Hold, Lock, Setup, TTL, Turn, Want, held, text};

type Shared = Arc<tokio::sync::Mutex<MultiplexedConnection>>;

pub struct RedisLock(Client, Shared);

impl Contender for RedisLock {
    type Lock = RedisLockLock;

    async fn connect(setup: &Setup) -> Result<Self, String> {
        let client = Client::open(setup.url()).map_err(text)?;
        let connection = client
            .get_multiplexed_async_connection()
            .await
            .map_err(text)?;
        // A server without functions has no `MultiResourceLock`, which its turns say.
        redis_lock::setup(&client).await.ok();
        Ok(RedisLock(
            client,
            Arc::new(tokio::sync::Mutex::new(connection)),
        ))
    }

    fn lock(&self, name: &str) -> RedisLockLock {
        RedisLockLock::One([self.1.clone()], name.to_owned())
    }

    fn wanting(&self, name: &str, want: Want) -> Option<RedisLockLock> {
        let multi = || MultiResourceLock::new(self.0.clone()).ok();
        Some(match want {
            Want::Mutex => self.lock(name),
            Want::Several { names: count } => RedisLockLock::Several(multi()?, names(name, count)),
            Want::Transfer { of } => {
                RedisLockLock::Transfer(multi()?, names(name, of), Draw::new())
            }
            _ => return None,
        })
    }
}

pub enum RedisLockLock {
    One([Shared; 1], String),
    Several(MultiResourceLock, Vec<String>),
    Transfer(MultiResourceLock, Vec<String>, Draw),
}

impl Lock for RedisLockLock {
    async fn turn(&mut self, hold: &Hold) -> Result<Turn, String> {
        match self {
            RedisLockLock::One(connection, name) => {
                let options = LockAcrossOptions {
                    ttl: TTL,
                    ..LockAcrossOptions::default()
                };
                redis_lock::lock_across(connection, name, held(hold.clone()), options)
                    .await
                    .map_err(text)
            }
            RedisLockLock::Several(lock, names) => across(lock, names, hold).await,
            RedisLockLock::Transfer(lock, names, draw) => {
                let (from, to) = draw.two_of(names.len());
                let both = [names[from].clone(), names[to].clone()];
                let turn = across(lock, &both, hold).await?;
                let mark = 1 << from | 1 << to;
                Ok(Turn { mark, ..turn })
            }
        }
    }
}

async fn across(
    lock: &mut MultiResourceLock,
    names: &[String],
    hold: &Hold,
) -> Result<Turn, String> {
    lock.map(
        names,
        TTL,
        DEFAULT_TIMEOUT,
        DEFAULT_SLEEP,
        held(hold.clone()),
    )
    .await
    .map_err(text)
}
