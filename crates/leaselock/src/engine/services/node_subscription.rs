//! Where a waiter listens if each lock has a node of its own, as in a cluster: at the node that has the lock, and at
//! another one when the lock has moved.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::base::hold;
use crate::quorum::executor::Executor;
use crate::script::keys;
use crate::store::Subscriptions;
use crate::store::subscriptions::Subscription;

/// On other stores it receives nothing and costs nothing.
#[derive(Debug, Default)]
pub(super) struct NodeSubscription {
    /// What its channel is called, plain and sharded.
    names: [OnceLock<String>; 2],
    current: Mutex<Option<Arc<Subscription>>>,
}

impl NodeSubscription {
    /// Listens at the node of the lock, as far as is known, and waits until messages arrive. Returns the channel if they
    /// do.
    pub(super) async fn listens(
        &self,
        store: &Executor,
        channel: &str,
        lock: &str,
        within: Duration,
    ) -> Option<&str> {
        // The first time may show that the servers have no sharded channels.
        for _ in 0..2 {
            let (node, sharded) = store.subscriptions_at(lock)?;
            let named = || keys::wake_channel_at(channel, lock, sharded);
            let name = self.names[usize::from(sharded)].get_or_init(named);
            let subscription = self.subscribe(&node, name);
            if subscription.ready(within).await {
                return Some(name);
            }
            if !subscription.is_refused() {
                return None;
            }
        }
        None
    }

    /// The subscription at this node. The one before it ends after this one begins, so that a channel that both want is
    /// not left in between.
    fn subscribe(&self, node: &Arc<Subscriptions>, name: &str) -> Arc<Subscription> {
        let mut current = hold(&self.current);
        let fit = current.as_ref().filter(|it| it.is_for(node, name));
        if let Some(subscription) = fit {
            return Arc::clone(subscription);
        }
        // A message names the waiter that it wakes. The subscription itself says only that messages may have been missed.
        let new = Arc::new(node.subscribe(name, |_| false));
        *current = Some(Arc::clone(&new));
        new
    }

    /// True if the lock lies on another node than the one at which it listens.
    pub(super) fn node_changed(&self, store: &Executor, lock: &str) -> bool {
        let current = hold(&self.current).clone();
        current.is_some_and(|current| {
            let at = store.subscriptions_at(lock);
            at.is_some_and(|(node, _)| !current.is_among(&node))
        })
    }

    /// Ends when messages may have been missed, or the slot has left its node.
    pub(super) async fn woken(&self) {
        let current = hold(&self.current).clone();
        match current {
            Some(current) => current.woken().await,
            None => std::future::pending().await,
        }
    }
}
