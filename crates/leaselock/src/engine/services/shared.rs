//! What the tasks of one client share: state for one key, and what there are only so many of.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::base::keyed_mutex::KeyedMutex;
use crate::base::{ErrorKind, StoreError, hold};
use crate::engine::values::custom::OWN_CONNECTIONS_MOST;
use crate::store::DedicatedConnection;

/// How many states there may be before a sweep removes those without a user.
const SWEEP_FROM: usize = 64;

/// One state for each noun and key, as long as anything uses it.
#[derive(Debug, Default)]
pub(crate) struct SharedStates(Mutex<StateTable>);

#[derive(Debug, Default)]
struct StateTable {
    states: HashMap<(&'static str, Arc<str>), Weak<dyn Any + Send + Sync>>,
    /// The number of states at which the next sweep is due.
    sweep_at: usize,
}

impl SharedStates {
    /// Returns the state of this noun and key, made by `new` if nothing uses one.
    pub(crate) fn get<T: Any + Send + Sync>(
        &self,
        noun: &'static str,
        key: &Arc<str>,
        new: impl FnOnce() -> T,
    ) -> Arc<T> {
        let mut table = hold(&self.0);
        let known = table.states.get(&(noun, Arc::clone(key)));
        let known = known
            .and_then(Weak::upgrade)
            .and_then(|state| state.downcast().ok());
        if let Some(state) = known {
            return state;
        }
        if table.states.len() >= table.sweep_at.max(SWEEP_FROM) {
            table.states.retain(|_, state| state.strong_count() > 0);
            table.sweep_at = 2 * table.states.len();
        }
        let state = Arc::new(new());
        let shared: Arc<dyn Any + Send + Sync> = state.clone();
        let key = (noun, Arc::clone(key));
        table.states.insert(key, Arc::downgrade(&shared));
        state
    }
}

/// What the tasks of one client share.
pub(crate) struct SharedByTasks {
    pub(crate) states: SharedStates,
    /// Lets one task of this client at a time poll a lock that has no queue.
    pub(crate) poll_mutexes: KeyedMutex,
    /// Limits how many locks have a connection of their own.
    pub(crate) own_connections: Arc<Semaphore>,
    pub(crate) replica_pool: ReplicaPool,
}

impl Default for SharedByTasks {
    fn default() -> Self {
        SharedByTasks {
            states: SharedStates::default(),
            poll_mutexes: KeyedMutex::default(),
            own_connections: Arc::new(Semaphore::new(OWN_CONNECTIONS_MOST)),
            replica_pool: ReplicaPool::default(),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_shared_while_it_is_used_and_no_longer() {
        let (states, key): (_, Arc<str>) = (SharedStates::default(), "a".into());
        let first = states.get("counter", &key, || 1);
        let again = states.get("counter", &key, || 2);
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(*states.get("other", &key, || 3), 3);
        drop((first, again));
        assert_eq!(*states.get("counter", &key, || 4), 4);
    }

    #[test]
    fn states_that_nothing_uses_do_not_pile_up() {
        let states = SharedStates::default();
        let kept = states.get("counter", &"kept".into(), || 0);
        for number in 0..10 * SWEEP_FROM {
            states.get("counter", &number.to_string().into(), || number);
        }
        assert!(hold(&states.0).states.len() <= SWEEP_FROM);
        assert!(Arc::ptr_eq(
            &kept,
            &states.get("counter", &"kept".into(), || 1)
        ));
    }
}
