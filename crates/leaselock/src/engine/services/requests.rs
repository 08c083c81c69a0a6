//! The two requests that every lease costs, acquire and release: sent alone or in a batch.

use std::sync::Arc;
use std::time::Duration;

use super::batch::SoloPermit;
use super::batch::batchable::{Acquires, Releases};
use super::batch::{Batcher, ContentionFilter, PendingReply};
use crate::base::clock::{Clock, Moment};
use crate::base::error::StoreError;
use crate::engine::values::calls::{Acquire, Release};
use crate::engine::values::calls_many::Item;
use crate::engine::values::grant::{Acquired, ReleaseAnswer};
use crate::quorum::executor::Executor;

#[derive(Debug)]
pub(crate) struct Requests {
    acquires: Batcher<Acquires>,
    releases: Batcher<Releases>,
    contended: Arc<ContentionFilter>,
    store: Executor,
    clock: Clock,
}

impl Requests {
    /// Creates the batchers. In strict mode acquisitions are not batched, because each asks at the gate. Releases still
    /// are: a batch of releases grants nothing.
    pub(crate) fn new(store: &Executor, clock: &Clock, strict: bool) -> Self {
        let contended = Arc::new(ContentionFilter::default());
        let shared = || (store.clone(), clock.clone(), Arc::clone(&contended));
        let ((for_acquires, clock, noted), (for_releases, its_clock, its_noted)) =
            (shared(), shared());
        Requests {
            acquires: Batcher::new(for_acquires, clock.clone(), noted, !strict),
            releases: Batcher::new(for_releases, its_clock, its_noted, true),
            contended,
            store: store.clone(),
            clock,
        }
    }

    /// Returns true if no acquisition is in flight, so that the next one is sent alone.
    pub(crate) fn is_free(&self) -> bool {
        self.acquires.is_free()
    }

    /// Returns the permit of an acquisition that its caller sends alone: while it exists, other acquisitions are
    /// batched.
    pub(crate) fn solo_permit(&self) -> Option<SoloPermit<'_, Acquires>> {
        self.acquires.solo_permit()
    }

    /// Acquires a lock in a batch, if it is granted at once; `None` when the caller should send this request alone.
    ///
    /// A batched request never joins the queue.
    pub(crate) fn acquire_with_others(
        &self,
        item: Item,
        now: Moment,
        within: Duration,
    ) -> Option<PendingReply<Acquired>> {
        self.acquires.join(item, now, within)
    }

    /// Starts to watch the timeouts of batched requests. Before that, no request is batched.
    pub(crate) fn watch(&self, background: &tokio::runtime::Handle) {
        drop(background.spawn(self.acquires.watch()));
        drop(background.spawn(self.releases.watch()));
    }

    /// Notes that the lock is contended, so that its requests are sent alone for a while.
    pub(crate) fn note_contended(&self, lock: &str, now: Moment) {
        self.contended.note(lock, now);
    }

    pub(crate) fn is_contended(&self, lock: &str, now: Moment) -> bool {
        self.contended.contains(lock, now)
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

    pub(crate) async fn release(
        &self,
        release: &Release<'_>,
        within: Duration,
    ) -> Result<ReleaseAnswer, StoreError> {
        self.releases.release(release, within).await
    }
}
