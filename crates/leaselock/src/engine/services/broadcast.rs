//! Broadcasts: what many watch under a name has one channel, on which each change is published once.
//!
//! A message is a reason to read and says nothing itself. A reader that hears none finds the change by its timer.

use std::sync::Arc;
use std::time::Duration;

use super::core::Engine;
use crate::base::Moment;
use crate::script::keys;
use crate::store::Subscriptions;
use crate::store::subscriptions::Subscription;

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
    lock: Arc<str>,
    /// What its channel is called, plain and sharded.
    names: [String; 2],
    current: Option<Subscription>,
}

impl BroadcastListener {
    /// Creates it; nothing is subscribed yet.
    pub(crate) fn new(engine: &Arc<Engine>, noun: &str, lock: &Arc<str>) -> Self {
        let name = |sharded| keys::broadcast_channel(&engine.ids.prefix, noun, lock, sharded);
        BroadcastListener {
            engine: Arc::clone(engine),
            lock: Arc::clone(lock),
            names: [name(false), name(true)],
            current: None,
        }
    }

    /// Subscribes where the name lies now, and waits until messages arrive, at most for `within`. True if they do: what
    /// changes from then on is heard. To be called before each read, because the name may have moved.
    ///
    /// # Cancel safety
    /// Safe: the subscription stays.
    pub(crate) async fn listens(&mut self, within: Duration) -> bool {
        // The first time may show that the servers have no sharded channels.
        for _ in 0..2 {
            let Some((set, sharded)) = self.subscriptions() else {
                return false;
            };
            let name = &self.names[usize::from(sharded)];
            let fit = self.current.take().filter(|it| it.is_for(&set, name));
            let current = fit.unwrap_or_else(|| set.subscribe(name, |_| true));
            let current = self.current.insert(current);
            if current.ready(within).await {
                return true;
            }
            if !current.is_refused() {
                return false;
            }
        }
        false
    }

    /// Ends when there was a change, or may have been one, and at this moment at the latest.
    ///
    /// # Cancel safety
    /// Safe: a message in between is there for the next call.
    pub(crate) async fn told_or(&self, until: Moment) {
        tokio::select! {
            () = self.told() => {}
            () = self.engine.clock.sleep_until(until) => {}
        }
    }

    /// Ends when there was a change, or may have been one; never before [`listens`](BroadcastListener::listens).
    ///
    /// # Cancel safety
    /// Safe: a message in between is there for the next call.
    pub(crate) async fn told(&self) {
        match &self.current {
            Some(current) => current.woken().await,
            None => std::future::pending().await,
        }
    }

    fn subscriptions(&self) -> Option<(Arc<Subscriptions>, bool)> {
        let background = self.engine.background().ok()?;
        match self.engine.store.capabilities().by_node {
            true => self.engine.store.subscriptions_at(&self.lock),
            false => Some((Arc::clone(&background.subscriptions), false)),
        }
    }
}
