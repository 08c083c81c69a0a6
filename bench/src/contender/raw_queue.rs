//! raw-queue: the least that hands over. Fast, and not safe: a waiter that crashes in the queue blocks it for ever.

use redis::aio::MultiplexedConnection;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

use super::{Contender, Hold, Lock, Setup, TTL, Turn, bare_client, bare_connection, held, text};
use crate::clock::now_ns;

const ACQUIRE: &str = "
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
redis.call('rpush', KEYS[2], ARGV[1])
return 0";

/// The channel is the part of the token before the colon.
const RELEASE: &str = "
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
local next = redis.call('lpop', KEYS[2])
if not next then return redis.call('del', KEYS[1]) end
redis.call('set', KEYS[1], next, 'PX', ARGV[2])
redis.call('publish', string.match(next, '^[^:]+'), next)
return 1";

type Waiters = Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>;

pub struct RawQueue {
    connection: MultiplexedConnection,
    acquire: String,
    release: String,
    channel: String,
    waiters: Waiters,
    locks: AtomicU64,
}

impl Contender for RawQueue {
    type Lock = RawQueueLock;

    async fn connect(setup: &Setup) -> Result<Self, String> {
        let mut connection = bare_connection(setup.url()).await?;
        let mut load = async |script: &str| {
            let load = redis::cmd("SCRIPT").arg("LOAD").arg(script).to_owned();
            load.query_async(&mut connection).await.map_err(text)
        };
        let (acquire, release) = (load(ACQUIRE).await?, load(RELEASE).await?);
        let channel = format!("wake-{}", std::process::id());
        let waiters = Waiters::default();
        listen(setup.url(), &channel, waiters.clone()).await?;
        let locks = AtomicU64::new(0);
        Ok(RawQueue {
            connection,
            acquire,
            release,
            channel,
            waiters,
            locks,
        })
    }

    fn lock(&self, name: &str) -> RawQueueLock {
        RawQueueLock {
            connection: self.connection.clone(),
            acquire: self.acquire.clone(),
            release: self.release.clone(),
            owner: format!(
                "{}:{}",
                self.channel,
                self.locks.fetch_add(1, Ordering::Relaxed)
            ),
            waiters: self.waiters.clone(),
            name: name.to_owned(),
            queue: format!("{name}:queue"),
            turns: 0,
        }
    }
}

/// One subscription per process wakes every waiter in it.
async fn listen(url: &str, channel: &str, waiters: Waiters) -> Result<(), String> {
    let (sender, mut pushes) = tokio::sync::mpsc::unbounded_channel();
    let config = redis::AsyncConnectionConfig::new().set_push_sender(sender);
    let url = format!("{url}?protocol=resp3");
    let connect = bare_client(&url)?;
    let mut connection = connect
        .get_multiplexed_async_connection_with_config(&config)
        .await
        .map_err(text)?;
    connection.subscribe(channel).await.map_err(text)?;
    tokio::spawn(async move {
        let _open = connection;
        while let Some(push) = pushes.recv().await {
            let Some(redis::Value::BulkString(token)) = push.data.last() else {
                continue;
            };
            let token = String::from_utf8_lossy(token);
            if let Some(waiter) = waiters.lock().expect("nobody panics here").remove(&*token) {
                waiter.send(()).ok();
            }
        }
    });
    Ok(())
}

pub struct RawQueueLock {
    connection: MultiplexedConnection,
    acquire: String,
    release: String,
    owner: String,
    waiters: Waiters,
    name: String,
    queue: String,
    turns: u64,
}

impl RawQueueLock {
    async fn send(&mut self, script: &str, token: &str) -> Result<u64, String> {
        let mut call = redis::cmd("EVALSHA");
        call.arg(script)
            .arg(2)
            .arg(&self.name)
            .arg(&self.queue)
            .arg(token)
            .arg(TTL.as_millis() as u64);
        call.query_async(&mut self.connection).await.map_err(text)
    }
}

impl Lock for RawQueueLock {
    async fn turn(&mut self, hold: &Hold) -> Result<Turn, String> {
        self.turns += 1;
        let token = format!("{}:{}", self.owner, self.turns);
        let (sender, granted) = oneshot::channel();
        self.waiters
            .lock()
            .expect("nobody panics here")
            .insert(token.clone(), sender);
        let (acquire, release) = (self.acquire.clone(), self.release.clone());
        let mut queued_ns = 0;
        if self.send(&acquire, &token).await? == 0 {
            queued_ns = now_ns();
            let late = tokio::time::timeout(TTL, granted).await;
            late.map_err(|_| "raw-queue: no grant came")?
                .map_err(text)?;
        } else {
            self.waiters
                .lock()
                .expect("nobody panics here")
                .remove(&token);
        }
        let turn = held(hold.clone()).await;
        let released = self.send(&release, &token).await?;
        let turn = Turn { queued_ns, ..turn };
        (released == 1)
            .then_some(turn)
            .ok_or_else(|| "raw-queue lost its key".to_owned())
    }
}
