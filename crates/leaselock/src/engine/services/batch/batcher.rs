//! Decides whether a request is sent alone or in a batch.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::batchable::Batchable;
use super::contention_filter::ContentionFilter;
use super::driver::BatchDriver;
use super::queue::BatchQueue;
use super::reply;
use super::reply::{BatchOutcome, PendingReply};
use super::shared::BatchState;
use crate::base::{Clock, Moment, StoreError, hold};
use crate::engine::values::Item;
use crate::quorum::executor::Executor;
use crate::quorum::votable::Votable;

/// Batches requests of one kind.
pub(crate) struct Batcher<B: Batchable>(Arc<BatchState<B>>);

impl<B: Batchable> Batcher<B> {
    pub(crate) fn new(
        store: &Executor,
        clock: &Clock,
        contended: &Arc<ContentionFilter>,
        may_combine: bool,
    ) -> Self {
        let can = store.capabilities();
        // A clock that is moved by hand never reaches the timeouts of requests that wait for a server.
        let together = may_combine && can.combines && !clock.is_manual();
        let names = if together { can.keys_per_call } else { 1 };
        Batcher(Arc::new(BatchState {
            queue: Mutex::new(BatchQueue::new(names)),
            store: store.clone(),
            clock: clock.clone(),
            contended: Arc::clone(contended),
            is_watched: AtomicBool::new(false),
            wake_watch: Arc::default(),
        }))
    }

    /// Sends `alone`, or its item in a batch while other requests are in flight.
    pub(crate) async fn ask<O>(
        &self,
        alone: &O,
        item: impl FnOnce() -> Option<Item>,
        within: Duration,
    ) -> Result<O::Reply, StoreError>
    where
        O: Votable<Reply = B::Reply>,
    {
        // The future of a request that is sent alone is large, so it is boxed: batched requests do not pay for its
        // size.
        if let Some(permit) = self.solo_permit() {
            return Box::pin(self.send_alone(alone, within, Some(permit))).await;
        }
        let now = self.0.clock.now();
        let pending = item().and_then(|item| self.join(item, now, within));
        let Some(pending) = pending else {
            return Box::pin(self.send_alone(alone, within, self.solo_permit())).await;
        };
        match pending.await {
            BatchOutcome::Answer(answer) => answer,
            BatchOutcome::Alone | BatchOutcome::NotPlain => {
                let waited = self.0.clock.now().saturating_since(now);
                let left = within.saturating_sub(waited);
                Box::pin(self.send_alone(alone, left, self.solo_permit())).await
            }
        }
    }

    async fn send_alone<O>(
        &self,
        alone: &O,
        left: Duration,
        _permit: Option<SoloPermit<'_, B>>,
    ) -> Result<O::Reply, StoreError>
    where
        O: Votable<Reply = B::Reply>,
    {
        if left.is_zero() {
            return Err(self.0.not_sent_in_time()); // a request that times out at once would only break the connection
        }
        self.0.store.ask(alone, left).await
    }

    /// Returns true if a request that came now would be sent alone.
    pub(crate) fn is_free(&self) -> bool {
        hold(&self.0.queue).is_solo_free()
    }

    /// Returns the permit to send a request alone, when no request is in flight. Dropping the permit returns it.
    pub(crate) fn solo_permit(&self) -> Option<SoloPermit<'_, B>> {
        let may = hold(&self.0.queue).take_solo();
        may.then(|| SoloPermit(&self.0)) // `then` is lazy: a permit that was refused must not be dropped
    }

    /// Puts a request in the queue; `None` when it should be sent alone.
    ///
    /// That is so when no request is in flight, and when other clients are known to want the lock.
    pub(crate) fn join(
        &self,
        item: Item,
        now: Moment,
        within: Duration,
    ) -> Option<PendingReply<B::Reply>> {
        let shared = &self.0;
        if shared.contended.contains(&item.resource.lock, now)
            || !shared.is_watched.load(Ordering::Relaxed)
        {
            return None;
        }
        let mut queue = hold(&shared.queue);
        if queue.is_solo_free() {
            return None;
        }
        let (reply, pending) = reply::pair();
        let enqueued = queue.enqueue(item, now.plus(within), now, reply);
        drop(queue);
        if enqueued.wake_watch {
            shared.wake_watch.notify_one();
        }
        if let Some(slot) = enqueued.slot {
            drop(tokio::spawn(
                BatchDriver::new(Arc::clone(shared), slot).run(),
            ));
        }
        Some(pending)
    }

    /// Watches the timeouts of all requests that are queued or in flight, as long as this batcher exists.
    ///
    /// It must run on the client's own thread: no thread may be driving a sender's runtime any more.
    pub(crate) fn watch(&self) -> impl Future<Output = ()> + Send + use<B> {
        let (shared, wake_watch) = (Arc::downgrade(&self.0), Arc::clone(&self.0.wake_watch));
        let clock = self.0.clock.clone();
        self.0.is_watched.store(true, Ordering::Relaxed);
        async move {
            while let Some(next) = Weak::upgrade(&shared).map(|shared| shared.sweep()) {
                tokio::select! {
                    () = wake_watch.notified() => {}
                    () = clock.sleep_until(next.unwrap_or(NEVER)), if next.is_some() => {}
                }
            }
        }
    }
}

const NEVER: Moment = Moment::from_nanos(u64::MAX);

pub(crate) struct SoloPermit<'a, B: Batchable>(&'a BatchState<B>);

impl<B: Batchable> Drop for SoloPermit<'_, B> {
    fn drop(&mut self) {
        hold(&self.0.queue).return_solo();
    }
}

impl<B: Batchable> fmt::Debug for Batcher<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batcher").finish_non_exhaustive()
    }
}
