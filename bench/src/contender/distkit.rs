//! distkit: its read-write lock, which waits by asking again every 50 ms.

use distkit::DistkitRedisKey;
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
        // The name is ours, and has no colon.
        let key = DistkitRedisKey::new_or_panic(name.to_owned());
        let options = LockOptions::builder(key, self.0.clone()).ttl(TTL);
        DistkitLock {
            lock: RwLock::new(options.build()),
            writes: true,
        }
    }

    fn wanting(&self, name: &str, want: Want) -> Option<DistkitLock> {
        let writes = match want {
            Want::Read => false,
            Want::Write => true,
            _ => return None,
        };
        Some(DistkitLock {
            writes,
            ..self.lock(name)
        })
    }
}

pub struct DistkitLock {
    lock: Arc<RwLock>,
    writes: bool,
}

impl Lock for DistkitLock {
    async fn turn(&mut self, hold: &Hold) -> Result<Turn, String> {
        if self.writes {
            let guard = self.lock.write().await.map_err(text)?;
            let turn = held(hold.clone()).await;
            guard.release().await.map_err(text)?;
            return Ok(turn);
        }
        let guard = self.lock.read().await.map_err(text)?;
        let turn = held(hold.clone()).await;
        guard.release().await.map_err(text)?;
        Ok(turn)
    }
}
