//! Where a waiter listens for its grant.

use std::time::Duration;

use super::attempt::Acquisition;
use super::progress::Progress;

impl Acquisition<'_> {
    /// Whether to get in line with the next request, and where this client listens: nowhere (an empty channel) while
    /// it cannot, and then there are only looks. A grant that comes over the connection of the requests is heard in the
    /// runtime of whoever waits, which saves the way over the client's own thread; that one listens when nothing else
    /// does, and for those who stand in line there.
    pub(super) async fn channel(&self, so_far: &Progress, within: Duration) -> (bool, &str) {
        let (store, wakeups) = (&self.engine.store, &self.background.wakeups);
        if !store.capabilities().wakes {
            return (true, "");
        }
        let alive = so_far.has_met_the_store();
        let begins = alive && !so_far.in_line;
        if store.capabilities().by_node {
            return (alive, self.channel_at_node(alive, begins, within).await);
        }
        let along = self.lane.is_none()
            && (store.would_hear() || begins && Box::pin(store.listens(within)).await);
        if along {
            return (true, &self.engine.channel_along);
        }
        let listens = wakeups.is_listening() || (begins && Box::pin(wakeups.ready(within)).await);
        if listens {
            return (true, &self.engine.channel);
        }
        if alive {
            wakeups.want(); // in the background; all who stand in line look when it is there
        }
        (alive, "")
    }

    /// The channel is that of the connection of the requests.
    pub(super) fn is_along(&self, channel: &str) -> bool {
        std::ptr::eq(channel, self.engine.channel_along.as_str())
    }

    /// That connection became another one on the way, so that the place in line says the wrong thing: it is either not
    /// heard there, or could be.
    pub(super) fn is_wrong_channel(&self, channel: &str) -> bool {
        if self.node_changed() {
            return true;
        }
        let hears = self.engine.store.hears();
        if self.is_along(channel) {
            !hears
        } else {
            channel.is_empty() && hears
        }
    }

    /// Where the node that has the lock is heard. Whoever gets in line waits for that, and a look does not wait long.
    async fn channel_at_node(&self, alive: bool, begins: bool, within: Duration) -> &str {
        const BRIEFLY: Duration = Duration::from_millis(300);
        if !alive {
            return "";
        }
        let within = if begins { within } else { within.min(BRIEFLY) };
        let (store, lock) = (&self.engine.store, &self.keys.lock);
        let heard = Box::pin(self.ear.listens(store, &self.engine.channel, lock, within));
        heard.await.unwrap_or_default()
    }

    /// The lock lies on another node than the one that is heard: the request has found that out.
    pub(super) fn node_changed(&self) -> bool {
        self.ear.node_changed(&self.engine.store, &self.keys.lock)
    }
}
