//! Where a place in line listens when each lock has a place of its own to listen at, as in a cluster: at the node that
//! has the lock, and at another one when it has moved.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::quorum::executor::Executor;
use crate::script::keys;
use crate::store::subscriptions::{Subscription, Subscriptions};

/// Elsewhere it hears nothing and costs nothing.
#[derive(Debug, Default)]
pub(super) struct NodeSubscription {
    /// What its channel is called, plain and sharded.
    names: [OnceLock<String>; 2],
    bell: Mutex<Option<Arc<Subscription>>>,
}

impl NodeSubscription {
    /// Listens where the lock lies, as far as is known, and waits until that is heard: the channel, if it is.
    pub(super) async fn listens(
        &self,
        store: &Executor,
        channel: &str,
        lock: &str,
        within: Duration,
    ) -> Option<&str> {
        // The first time may show that the servers have no sharded channels.
        for _ in 0..2 {
            let (bells, sharded) = store.bells_at(lock)?;
            let named = || keys::wake_channel_at(channel, lock, sharded);
            let name = self.names[usize::from(sharded)].get_or_init(named);
            let bell = self.bell_among(&bells, name);
            if bell.ready(within).await {
                return Some(name);
            }
            if !bell.is_refused() {
                return None;
            }
        }
        None
    }

    /// The bell that hangs there. The one before it goes when this one is there, so that a channel that both want is
    /// not left in between.
    fn bell_among(&self, bells: &Arc<Subscriptions>, name: &str) -> Arc<Subscription> {
        let mut bell = self.bell();
        let fit = bell.as_ref().filter(|bell| bell.is_for(bells, name));
        if let Some(bell) = fit {
            return Arc::clone(bell);
        }
        // Its messages name those whom they wake; the bell itself tells only that some may have been missed.
        let new = Arc::new(bells.hear_only(name, |_| false));
        *bell = Some(Arc::clone(&new));
        new
    }

    /// The lock lies on another node than the one that is heard.
    pub(super) fn node_changed(&self, store: &Executor, lock: &str) -> bool {
        let bell = self.bell().clone();
        bell.is_some_and(|bell| {
            let place = store.bells_at(lock);
            place.is_some_and(|(bells, _)| !bell.is_among(&bells))
        })
    }

    /// Ends when messages may have been missed, or the slot has left its node.
    pub(super) async fn rung(&self) {
        let bell = self.bell().clone();
        match bell {
            Some(bell) => bell.rung().await,
            None => std::future::pending().await,
        }
    }

    fn bell(&self) -> MutexGuard<'_, Option<Arc<Subscription>>> {
        self.bell.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
