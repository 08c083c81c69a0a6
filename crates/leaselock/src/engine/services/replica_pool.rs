//! The connections on which requests wait for replicas; each serves one request at a time.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::base::{ErrorKind, StoreError, hold};
use crate::store::DedicatedConnection;

/// The most requests of a client that wait for replicas at once, each on a connection of its own.
const WAITS_MAX: usize = 32;
/// How many connections stay open without a waiting request.
const IDLE_MOST: usize = 4;
#[derive(Debug)]
pub(crate) struct ReplicaPool {
    permits: Semaphore,
    idle: Mutex<Vec<DedicatedConnection>>,
}

impl Default for ReplicaPool {
    fn default() -> Self {
        ReplicaPool {
            permits: Semaphore::new(WAITS_MAX),
            idle: Mutex::default(),
        }
    }
}

impl ReplicaPool {
    pub(crate) async fn admit(&self, within: Duration) -> Result<SemaphorePermit<'_>, StoreError> {
        match timeout(within, self.permits.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => {
                let message = format!(
                    "{WAITS_MAX} requests of this client wait for replicas already, which is the limit"
                );
                Err(StoreError::refused(ErrorKind::NotServing, message))
            }
        }
    }

    /// Returns an idle connection that is still open.
    pub(crate) fn take_idle(&self) -> Option<DedicatedConnection> {
        let mut idle = hold(&self.idle);
        idle.retain(DedicatedConnection::is_open);
        idle.pop()
    }

    pub(crate) fn put_back(&self, connection: DedicatedConnection) {
        let mut idle = hold(&self.idle);
        if idle.len() < IDLE_MOST {
            idle.push(connection);
        }
    }
}
