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
    subscription: Mutex<Option<Arc<Subscription>>>,
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
            let (set, sharded) = store.bells_at(lock)?;
            let named = || keys::wake_channel_at(channel, lock, sharded);
            let name = self.names[usize::from(sharded)].get_or_init(named);
            let current = self.subscription_among(&set, name);
            if current.ready(within).await {
                return Some(name);
            }
            if !current.is_refused() {
                return None;
            }
        }
        None
    }

    /// Returns the subscription there. The one before it ends when this one is there, so that a channel that both want
    /// is not left in between.
    fn subscription_among(&self, set: &Arc<Subscriptions>, name: &str) -> Arc<Subscription> {
        let mut current = self.subscription();
        let fit = current.as_ref().filter(|one| one.is_for(set, name));
        if let Some(one) = fit {
            return Arc::clone(one);
        }
        // Its messages name those whom they wake; the subscription itself tells only that some may have been missed.
        let new = Arc::new(set.subscribe(name, |_| false));
        *current = Some(Arc::clone(&new));
        new
    }

    /// The lock lies on another node than the one that is heard.
    pub(super) fn node_changed(&self, store: &Executor, lock: &str) -> bool {
        let current = self.subscription().clone();
        current.is_some_and(|current| {
            let place = store.bells_at(lock);
            place.is_some_and(|(set, _)| !current.is_among(&set))
        })
    }

    /// Ends when messages may have been missed, or the slot has left its node.
    pub(super) async fn rung(&self) {
        let current = self.subscription().clone();
        match current {
            Some(current) => current.woken().await,
            None => std::future::pending().await,
        }
    }

    fn subscription(&self) -> MutexGuard<'_, Option<Arc<Subscription>>> {
        self.subscription
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
