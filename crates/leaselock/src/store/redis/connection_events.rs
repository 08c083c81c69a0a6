//! A counter of connection events, for the tasks that verify leases.

use std::sync::Arc;

use tokio::sync::watch;

/// Counts events on the connections of a store. Clones share the count.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionEvents(Arc<watch::Sender<u64>>);

impl ConnectionEvents {
    pub(super) fn happened(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    /// Watches the count. Earlier events count as news: a lease may be older than the thread that verifies it.
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        let mut news = self.0.subscribe();
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
