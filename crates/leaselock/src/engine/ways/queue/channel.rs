//! Where a waiter listens for its grant.

use std::time::Duration;

use super::poller::Poller;
use crate::script::keys;

impl Poller<'_, '_> {
    /// Returns whether the next request enters the queue, and the channel at which this client listens. The channel is
    /// empty while the client hears nothing: then there are only polls. `is_there`: the store has answered.
    ///
    /// A grant that comes over the connection of the requests is received in the runtime of the waiter, which saves the way
    /// over the client's own thread. That thread listens when nothing else does, and for the tasks of a group.
    pub(super) async fn channel(
        &self,
        is_there: bool,
        in_queue: bool,
        within: Duration,
    ) -> (bool, &str) {
        let (engine, notifier) = (self.ask.engine, &self.ask.background.notifier);
        let store = &engine.store;
        if !store.capabilities().wakes {
            return (true, "");
        }
        let begins = is_there && !in_queue;
        if store.capabilities().by_node {
            let channel = self.channel_at_node(is_there, begins, within);
            return (is_there, channel.await);
        }
        let along = self.over.is_none()
            && (store.would_hear() || begins && Box::pin(store.listens(within)).await);
        if along {
            return (true, &engine.ids.channel_along);
        }
        let listens = notifier.is_listening() || (begins && Box::pin(notifier.ready(within)).await);
        if listens {
            return (true, &engine.ids.channel);
        }
        if is_there {
            notifier.want(); // in the background; all waiters poll when it is there
        }
        (is_there, "")
    }

    /// The channel is that of the connection of the requests.
    pub(super) fn is_along(&self, channel: &str) -> bool {
        std::ptr::eq(channel, self.ask.engine.ids.channel_along.as_str())
    }

    /// The queue entry names a channel at which this client does not listen, or names none although the client could
    /// listen: the request has opened another connection, or the lock lies on another node.
    pub(super) fn is_wrong_channel(&self, channel: &str) -> bool {
        if self.node_changed() {
            return true;
        }
        if self.over.is_some() {
            return false; // the client's thread has one channel
        }
        let hears = self.ask.engine.store.hears();
        if self.is_along(channel) {
            !hears
        } else {
            channel.is_empty() && hears
        }
    }

    /// The channel at the node that has the lock. A waiter that enters the queue waits until the client listens there, and
    /// a poll does not wait long.
    async fn channel_at_node(&self, is_there: bool, begins: bool, within: Duration) -> &str {
        /// How long a poll waits until the client listens at the node of the lock.
        const BRIEFLY: Duration = Duration::from_millis(300);
        if !is_there {
            return "";
        }
        let within = if begins { within } else { within.min(BRIEFLY) };
        let (engine, lock) = (self.ask.engine, &self.ask.resource.lock);
        let at = || engine.store.subscriptions_at(lock);
        let name = |sharded| keys::wake_channel_at(&engine.ids.channel, lock, sharded);
        // A message names the waiter that it wakes. The subscription itself says only that messages may have been missed.
        let heard = self.subscription.listens(at, name, |_| false, within);
        Box::pin(heard).await.unwrap_or_default()
    }

    /// The lock lies on another node than the one at which this client listens: the request has found that out.
    pub(super) fn node_changed(&self) -> bool {
        let (store, lock) = (&self.ask.engine.store, &self.ask.resource.lock);
        self.subscription.node_changed(store, lock)
    }
}
