//! Whether a request goes by itself or with others.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::contention_filter::ContentionFilter;
use super::driver::Driver;
use super::kinds::Kind;
use super::queue::Queue;
use super::reply;
use super::reply::{BatchOutcome, Pending};
use super::shared::Shared;
use crate::base::clock::{Clock, Moment};
use crate::base::error::StoreError;
use crate::engine::calls_many::Item;
use crate::quorum::executor::Executor;
use crate::quorum::votable::Votable;

/// Combines requests of one kind.
pub(crate) struct Batcher<K: Kind>(Arc<Shared<K>>);

impl<K: Kind> Batcher<K> {
    pub(crate) fn new(
        store: Executor,
        clock: Clock,
        contended: Arc<ContentionFilter>,
        may_combine: bool,
    ) -> Self {
        let can = store.capabilities();
        // A clock that is moved by hand does not end the time of those who wait for a server.
        let together = may_combine && can.combines && !clock.is_manual();
        let names = if together { can.keys_per_call } else { 1 };
        Batcher(Arc::new(Shared {
            queue: Mutex::new(Queue::new(names)),
            store,
            clock,
            contended,
            watched: AtomicBool::new(false),
            hurry: Arc::default(),
        }))
    }

    /// Sends `alone`, or its item together with others when it is the plain case.
    pub(crate) async fn ask<O>(
        &self,
        alone: &O,
        item: impl FnOnce() -> Option<Item>,
        within: Duration,
    ) -> Result<O::Reply, StoreError>
    where
        O: Votable<Reply = K::Reply>,
    {
        // What a call of its own needs is large, and a crowd does without.
        if let Some(straight) = self.straight() {
            return Box::pin(self.by_itself(alone, within, Some(straight))).await;
        }
        let now = self.0.clock.now();
        let joined = item().and_then(|item| self.join(item, now, within));
        let Some(joined) = joined else {
            return Box::pin(self.by_itself(alone, within, self.straight())).await;
        };
        match joined.await {
            BatchOutcome::Answer(answer) => answer,
            BatchOutcome::Alone | BatchOutcome::NotPlain => {
                let waited = self.0.clock.now().saturating_since(now);
                let left = within.saturating_sub(waited);
                Box::pin(self.by_itself(alone, left, self.straight())).await
            }
        }
    }

    async fn by_itself<O>(
        &self,
        alone: &O,
        left: Duration,
        _straight: Option<SoloPermit<'_, K>>,
    ) -> Result<O::Reply, StoreError>
    where
        O: Votable<Reply = K::Reply>,
    {
        if left.is_zero() {
            return Err(self.0.too_late()); // a request without time would only break the connection
        }
        self.0.store.ask(alone, left).await
    }

    /// Whoever asks now goes by itself.
    pub(crate) fn is_free(&self) -> bool {
        self.0.queue().is_straight_free()
    }

    /// The right to go straight, when nobody is on the way; given back when it is dropped.
    pub(crate) fn straight(&self) -> Option<SoloPermit<'_, K>> {
        let may = self.0.queue().go_straight();
        may.then(|| SoloPermit(&self.0)) // one that was not had is not given back
    }

    /// Puts a request in the queue, unless it would go straight or others are known to want the lock: then there is
    /// nobody to leave with.
    pub(crate) fn join(
        &self,
        item: Item,
        now: Moment,
        within: Duration,
    ) -> Option<Pending<K::Reply>> {
        let shared = &self.0;
        if shared.contended.knows(&item.keys.lock, now) || !shared.watched.load(Ordering::Relaxed) {
            return None;
        }
        let mut queue = shared.queue();
        if queue.is_straight_free() {
            return None;
        }
        let (reply, joined) = reply::pair();
        let enqueued = queue.enqueue(item, now.plus(within), now, reply);
        drop(queue);
        if enqueued.hurry {
            shared.hurry.notify_one();
        }
        if let Some(slot) = enqueued.slot {
            drop(tokio::spawn(Driver::new(Arc::clone(shared), slot).run()));
        }
        Some(joined)
    }

    /// Watches the time for all who are in the queue or on their way, as long as this exists. To be run on the client's
    /// own thread: the runtime of a sender may be one that nobody drives any more.
    pub(crate) fn watch(&self) -> impl Future<Output = ()> + Send + use<K> {
        let (shared, hurry) = (Arc::downgrade(&self.0), Arc::clone(&self.0.hurry));
        let clock = self.0.clock.clone();
        self.0.watched.store(true, Ordering::Relaxed);
        async move {
            while let Some(next) = Weak::upgrade(&shared).map(|shared| shared.sweep()) {
                tokio::select! {
                    () = hurry.notified() => {}
                    () = clock.sleep_until(next.unwrap_or(NEVER)), if next.is_some() => {}
                }
            }
        }
    }
}

const NEVER: Moment = Moment::from_nanos(u64::MAX);

/// A request that went straight.
pub(crate) struct SoloPermit<'a, K: Kind>(&'a Shared<K>);

impl<K: Kind> Drop for SoloPermit<'_, K> {
    fn drop(&mut self) {
        self.0.queue().straight_is_back();
    }
}

impl<K: Kind> fmt::Debug for Batcher<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batcher").finish_non_exhaustive()
    }
}
