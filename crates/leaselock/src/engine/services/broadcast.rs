//! Broadcasts: what many watch under a name has one channel, on which each change is published once.
//!
//! A message is a reason to read and says nothing itself. A reader that hears none finds the change by its timer.

use std::sync::Arc;
use std::time::Duration;

use super::core::Engine;
use super::node_subscription::NodeSubscription;
use crate::script::keys;
use crate::store::Subscriptions;

/// How long a reader waits for its subscription before it reads.
pub(crate) const SUBSCRIBED_WITHIN: Duration = Duration::from_secs(1);

/// Returns how often a reader reads that hears of each change, or of none.
pub(crate) fn read_every(heard: bool) -> Duration {
    Duration::from_secs(if heard { 15 } else { 1 })
}

/// Returns the channel that a script publishes on. In a cluster the script finds out whether servers have sharded ones.
pub(crate) fn channel_of(engine: &Engine, noun: &str, lock: &str) -> String {
    keys::broadcast_channel(&engine.ids.prefix, noun, lock, engine.store.is_cluster())
}

/// Listens for changes of one noun under one name. Dropping it ends that.
#[derive(Debug)]
pub(crate) struct BroadcastListener {
    engine: Arc<Engine>,
    noun: &'static str,
    lock: Arc<str>,
    subscription: NodeSubscription,
}

impl BroadcastListener {
    pub(crate) fn new(engine: &Arc<Engine>, noun: &'static str, lock: &Arc<str>) -> Self {
        BroadcastListener {
            engine: Arc::clone(engine),
            noun,
            lock: Arc::clone(lock),
            subscription: NodeSubscription::default(),
        }
    }

    /// Subscribes where the name lies now, and waits until messages arrive, at most for `within`. True if they do: what
    /// changes from then on is heard. To be called before each read, because the name may have moved.
    ///
    /// # Cancel safety
    /// Safe: the subscription stays.
    pub(crate) async fn listens(&self, within: Duration) -> bool {
        let prefix = &self.engine.ids.prefix;
        let name = |sharded| keys::broadcast_channel(prefix, self.noun, &self.lock, sharded);
        let heard = self
            .subscription
            .listens(|| self.subscriptions(), name, |_| true, within);
        heard.await.is_some()
    }

    /// Ends when there was a change, or may have been one; never before [`listens`](BroadcastListener::listens).
    ///
    /// # Cancel safety
    /// Safe: a message in between is there for the next call.
    pub(crate) async fn told(&self) {
        self.subscription.woken().await;
    }

    fn subscriptions(&self) -> Option<(Arc<Subscriptions>, bool)> {
        let background = self.engine.background().ok()?;
        match self.engine.store.is_cluster() {
            true => self.engine.store.subscriptions_at(&self.lock),
            false => Some((Arc::clone(&background.subscriptions), false)),
        }
    }
}
