//! The two requests that every lease costs, on their way to the store: alone or together with others.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::{Clock, Moment};
use crate::base::error::StoreError;
use crate::base::ttl::DEFAULT_TTL;
#[cfg(feature = "redis")]
use crate::engine::batch::SoloPermit;
use crate::engine::batch::kinds::{Acquires, Releases};
use crate::engine::batch::{Batcher, ContentionFilter, Pending};
use crate::engine::calls::{Acquire, Release};
use crate::engine::calls_many::Item;
use crate::engine::grant::{Acquired, ReleaseAnswer};
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
    /// In strict mode acquisitions leave one by one, because each is to ask at the gate; releases grant nothing when they
    /// leave together.
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

    /// Nobody else is on the way with an acquisition, so that one leaves by itself.
    pub(crate) fn is_free(&self) -> bool {
        self.acquires.is_free()
    }

    /// For an acquisition that leaves by itself in its own way: while this exists, others gather.
    #[cfg(feature = "redis")]
    pub(crate) fn straight(&self) -> Option<SoloPermit<'_, Acquires>> {
        self.acquires.straight()
    }

    /// Takes the lock together with others when it is free; `None` when this request would go by itself. A request
    /// that leaves with others never gets in line.
    pub(crate) fn acquire_with_others(
        &self,
        item: Item,
        now: Moment,
        within: Duration,
    ) -> Option<Pending<Acquired>> {
        self.acquires.join(item, now, within)
    }

    /// Watches the time of requests that leave with others; until somebody does, none does.
    pub(crate) fn watch(&self, background: &tokio::runtime::Handle) {
        drop(background.spawn(self.acquires.watch()));
        drop(background.spawn(self.releases.watch()));
    }

    /// Requests for the lock go by themselves for a while.
    pub(crate) fn note_contended(&self, lock: &str, now: Moment) {
        self.contended.note(lock, now);
    }

    #[cfg(feature = "redis")]
    pub(crate) fn is_contended(&self, lock: &str, now: Moment) -> bool {
        self.contended.knows(lock, now)
    }

    /// `now` is not later than this call.
    pub(crate) async fn acquire(
        &self,
        acquire: &Acquire<'_>,
        now: Moment,
        within: Duration,
    ) -> Result<Acquired, StoreError> {
        let item = || Item::of(acquire.keys, acquire.token, acquire.ttl, acquire.fencing);
        let until = now.plus(within);
        let answer = self.acquires.ask(acquire, item, within).await?;
        if matches!(answer, Acquired::Granted { .. }) {
            return Ok(answer);
        }
        let now = self.clock.now();
        self.contended.note(&acquire.keys.lock, now);
        if acquire.waits && matches!(&answer, Acquired::Busy { seen } if seen.quarantine.is_none())
        {
            // A combined request does not get in line.
            return Box::pin(self.store.ask(acquire, until.saturating_since(now))).await;
        }
        Ok(answer)
    }

    pub(crate) async fn release(
        &self,
        release: &Release<'_>,
        within: Duration,
    ) -> Result<ReleaseAnswer, StoreError> {
        if release.used.is_some() {
            // Only its own script gives back what was reserved.
            return Box::pin(self.store.ask(release, within)).await;
        }
        let item = || Item::of(release.keys, release.token, DEFAULT_TTL, true);
        self.releases.ask(release, item, within).await
    }
}
