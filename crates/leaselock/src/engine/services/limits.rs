//! What the tasks of a client have only so many of.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::replica_pool::ReplicaPool;
use crate::base::keyed_mutex::KeyedMutex;
use crate::engine::values::custom::OWN_CONNECTIONS_MOST;

pub(crate) struct Limits {
    /// Lets one task of this client at a time poll a lock that has no queue.
    pub(crate) poll_mutexes: KeyedMutex,
    /// Limits how many locks have a connection of their own.
    pub(crate) own_connections: Arc<Semaphore>,
    pub(crate) replica_pool: ReplicaPool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            poll_mutexes: KeyedMutex::default(),
            own_connections: Arc::new(Semaphore::new(OWN_CONNECTIONS_MOST)),
            replica_pool: ReplicaPool::default(),
        }
    }
}
