//! The two requests that every lease costs, acquire and release: sent alone or in a batch.

use std::sync::Arc;
use std::time::Duration;

use super::batch::batchable::{Acquires, Releases};
use super::batch::{Batcher, ContentionFilter};
use crate::base::{Clock, Moment, StoreError};
use crate::engine::values::{Acquire, Acquired, Item};
use crate::quorum::executor::Executor;

#[derive(Debug)]
pub(crate) struct Requests {
    pub(crate) acquires: Batcher<Acquires>,
    pub(crate) releases: Batcher<Releases>,
    /// The locks whose requests are sent alone for a while.
    pub(crate) contended: Arc<ContentionFilter>,
    store: Executor,
    clock: Clock,
}

impl Requests {
    /// Creates the batchers. In strict mode acquisitions are not batched, because each asks at the gate. Releases still
    /// are: a batch of releases grants nothing.
    pub(crate) fn new(store: &Executor, clock: &Clock, strict: bool) -> Self {
        let contended = Arc::new(ContentionFilter::default());
        Requests {
            acquires: Batcher::new(store, clock, &contended, !strict),
            releases: Batcher::new(store, clock, &contended, true),
            contended,
            store: store.clone(),
            clock: clock.clone(),
        }
    }

    /// Starts to watch the timeouts of batched requests. Before that, no request is batched.
    pub(crate) fn watch(&self, background: &tokio::runtime::Handle) {
        drop(background.spawn(self.acquires.watch()));
        drop(background.spawn(self.releases.watch()));
    }

    /// Sends an acquisition. `now` is not later than this call.
    pub(crate) async fn acquire(
        &self,
        acquire: &Acquire<'_>,
        now: Moment,
        within: Duration,
    ) -> Result<Acquired, StoreError> {
        let item = || {
            Item::of(
                acquire.resource,
                acquire.token,
                acquire.ttl,
                acquire.fencing,
            )
        };
        let until = now.plus(within);
        let answer = self.acquires.ask(acquire, item, within).await?;
        if matches!(answer, Acquired::Granted { .. }) {
            return Ok(answer);
        }
        let now = self.clock.now();
        self.contended.note(&acquire.resource.lock, now);
        if acquire.waits && matches!(&answer, Acquired::Busy { seen } if seen.quarantine.is_none())
        {
            // A batched request does not join the queue.
            return Box::pin(self.store.ask(acquire, until.saturating_since(now))).await;
        }
        Ok(answer)
    }
}
