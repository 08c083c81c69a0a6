//! rslock with its defaults: a quorum of as many servers as it is given; it waits by trying again after up to 200 ms.

use rslock::LockManager;

use super::{Contender, Hold, Lock, Setup, TTL, Turn, held, text};

pub struct Rslock(LockManager);

impl Contender for Rslock {
    type Lock = RslockLock;

    async fn connect(setup: &Setup) -> Result<Self, String> {
        Ok(Rslock(LockManager::new(setup.urls.clone())))
    }

    fn lock(&self, name: &str) -> RslockLock {
        RslockLock {
            manager: self.0.clone(),
            name: name.to_owned(),
        }
    }
}

pub struct RslockLock {
    manager: LockManager,
    name: String,
}

impl Lock for RslockLock {
    async fn turn(&mut self, hold: &Hold) -> Result<Turn, String> {
        let guard = self
            .manager
            .acquire(self.name.as_str(), TTL)
            .await
            .map_err(text)?;
        let turn = held(hold.clone()).await;
        guard.release().await;
        Ok(turn)
    }
}
