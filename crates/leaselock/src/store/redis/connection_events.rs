//! What happened to connections: a counter for the tasks that verify leases, and which servers are reached.

use std::sync::{Arc, Mutex, OnceLock, Weak};

use tokio::sync::watch;

use crate::base::{StoreError, hold};
use crate::store::{LeaseHolder, Reachability};

/// Counts events on the connections of a store. Clones share all of it.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionEvents(Arc<KnownConnections>);

#[derive(Debug, Default)]
struct KnownConnections {
    count: watch::Sender<u64>,
    tried: Mutex<Reachability>,
    holder: OnceLock<Weak<dyn LeaseHolder>>,
}

impl ConnectionEvents {
    pub(super) fn happened(&self) {
        self.0.count.send_modify(|count| *count += 1);
    }

    /// Tells this one from now on when a server is not reached any more, and when it is again.
    pub(super) fn tell(&self, holder: &Arc<dyn LeaseHolder>) {
        drop(self.0.holder.set(Arc::downgrade(holder))); // the first one is enough
    }

    /// Notes an attempt to connect. A server that is not reached any more is an event.
    pub(super) fn tried(&self, server: String, error: Option<&StoreError>) {
        let before = hold(&self.0.tried).insert(server.clone(), error.cloned());
        if before.flatten().is_some() != error.is_some() {
            let holder = self.0.holder.get().and_then(Weak::upgrade);
            holder.inspect(|holder| holder.connection(&server, error));
        }
    }

    pub(super) fn all(&self) -> Reachability {
        hold(&self.0.tried).clone()
    }

    /// Watches the count. Earlier events count as news: a lease may be older than the thread that verifies it.
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        let mut news = self.0.count.subscribe();
        if *news.borrow() > 0 {
            news.mark_changed();
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_before_anybody_watched_is_news_to_them_once() {
        let trouble = ConnectionEvents::default();
        assert!(!trouble.watch().has_changed().unwrap());
        trouble.happened();
        let mut late = trouble.watch();
        assert!(late.has_changed().unwrap());
        late.mark_unchanged();
        assert!(!late.has_changed().unwrap());
    }
}
