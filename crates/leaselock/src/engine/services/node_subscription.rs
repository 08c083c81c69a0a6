//! Where a client listens for a lock: at the node that has it, as in a cluster, and at another one when the lock has moved.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::base::hold;
use crate::quorum::executor::Executor;
use crate::store::Subscriptions;
use crate::store::subscriptions::Subscription;

/// Nothing is subscribed before the first call, and dropping it ends the subscription. Where no node is told, it receives
/// nothing and costs nothing.
#[derive(Debug, Default)]
pub(crate) struct NodeSubscription {
    /// What its channel is called, plain and sharded.
    names: [OnceLock<String>; 2],
    current: Mutex<Option<Arc<Subscription>>>,
}

impl NodeSubscription {
    /// Subscribes `at` the node where the lock lies now, and waits until messages arrive. Returns the channel if they do.
    ///
    /// # Cancel safety
    /// Safe: the subscription stays.
    pub(crate) async fn listens(
        &self,
        at: impl Fn() -> Option<(Arc<Subscriptions>, bool)>,
        name: impl Fn(bool) -> String,
        filter: fn(&[u8]) -> bool,
        within: Duration,
    ) -> Option<&str> {
        // The first time may show that the servers have no sharded channels.
        for _ in 0..2 {
            let (node, sharded) = at()?;
            let name = self.names[usize::from(sharded)].get_or_init(|| name(sharded));
            let subscription = self.subscribe(&node, name, filter);
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
    fn subscribe(
        &self,
        node: &Arc<Subscriptions>,
        name: &str,
        filter: fn(&[u8]) -> bool,
    ) -> Arc<Subscription> {
        let mut current = hold(&self.current);
        let fit = current.as_ref().filter(|it| it.is_for(node, name));
        if let Some(subscription) = fit {
            return Arc::clone(subscription);
        }
        let new = Arc::new(node.subscribe(name, filter));
        *current = Some(Arc::clone(&new));
        new
    }

    /// True if the lock lies on another node than the one at which it listens.
    pub(crate) fn node_changed(&self, store: &Executor, lock: &str) -> bool {
        let current = hold(&self.current).clone();
        current.is_some_and(|current| {
            let at = store.subscriptions_at(lock);
            at.is_some_and(|(node, _)| !current.is_among(&node))
        })
    }

    /// Ends after a message that the filter lets pass, and when messages may have been missed, or the slot has left its node.
    pub(crate) async fn woken(&self) {
        let current = hold(&self.current).clone();
        match current {
            Some(current) => current.woken().await,
            None => std::future::pending().await,
        }
    }
}
