//! The two requests that every lease costs, acquire and release: whether each is sent alone or in a batch.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::driver::{Acquires, BatchDriver, BatchState, Batchable, ContentionFilter, Releases};
use super::queue::{BatchOutcome, BatchQueue, PendingReply, pair};
use crate::base::{Clock, Moment, StoreError, hold};
use crate::engine::values::{Acquire, Acquired, Held, Item, Release, ReleaseAnswer};
use crate::quorum::executor::Executor;
use crate::quorum::tally::Votable;

pub(crate) struct Requests {
    pub(crate) acquires: Batcher<Acquires>,
    pub(crate) releases: Batcher<Releases>,
    /// The locks whose requests are sent alone for a while.
    pub(crate) contended: Arc<ContentionFilter>,
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
        let Acquire { held, terms, .. } = *acquire;
        let item = || Item::of(held, terms);
        let until = now.plus(within);
        let answer = self.acquires.ask(acquire, item, within).await?;
        if matches!(answer, Acquired::Granted { .. }) {
            return Ok(answer);
        }
        let now = self.clock.now();
        self.contended.note(&held.resource.lock, now);
        if acquire.waits && matches!(&answer, Acquired::Busy { seen } if seen.quarantine.is_none())
        {
            // A batched request does not join the queue.
            let left = until.saturating_since(now);
            return Box::pin(self.acquires.send_alone(acquire, left, None)).await;
        }
        Ok(answer)
    }
}

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
        if shared.contended.contains(&item.held.resource.lock, now)
            || !shared.is_watched.load(Ordering::Relaxed)
        {
            return None;
        }
        let mut queue = hold(&shared.queue);
        if queue.is_solo_free() {
            return None;
        }
        let (reply, pending) = pair();
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

impl Batcher<Releases> {
    /// Releases a lease that was not broken.
    pub(crate) async fn release(
        &self,
        release: &Release<'_>,
        within: Duration,
    ) -> Result<ReleaseAnswer, StoreError> {
        let item = || Item::of_release(release.held);
        self.ask(release, item, within).await
    }

    /// Releases one that was broken and has not ended, if `found`, the answer for its own token, leaves that open. Without a
    /// reply, the request is sent once more. "Not held" then tells nothing: it was released, or another client's.
    pub(crate) async fn release_broken(
        &self,
        release: &Release<'_>,
        found: ReleaseAnswer,
        within: Duration,
    ) -> Result<ReleaseAnswer, StoreError> {
        let Held { resource, token } = release.held;
        // What is broken is there under another token: exclusively, or as a hold that is not found.
        let may_be_a_hold = found == ReleaseAnswer::Expired && resource.mode.is_some();
        if found != ReleaseAnswer::Taken && !may_be_a_hold {
            return Ok(found);
        }
        let held = &Held::of(resource, &token.broken());
        let broken = Release { held, ..*release };
        let ask = || self.ask(&broken, || None, within);
        match ask().await {
            Ok(ReleaseAnswer::Expired | ReleaseAnswer::Taken) => Ok(found),
            Err(lost) if lost.maybe_applied() => match ask().await {
                Ok(ReleaseAnswer::Released) => Ok(ReleaseAnswer::Released),
                _ => Err(lost),
            },
            answer => answer,
        }
    }
}

#[cfg(all(test, feature = "redis"))]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};
    use std::thread;

    use leaselock_fence::Name;

    use super::*;
    use crate::client::Client;
    use crate::client::options::Options;
    use crate::mutex::MUTEX;

    /// A request that times out at once would end the connection of all.
    #[tokio::test]
    async fn a_task_that_reads_too_late_that_the_lock_is_held_sends_nothing_more() {
        let server = testkit::Server::start();
        let [client, holder] = [(); 2].map(|()| Client::open(&server.url()).unwrap());
        let _lease = holder.mutex("job").acquire().await.unwrap();
        let (name, engine) = (Name::new("job").unwrap(), client.engine());
        let (resource, request) = client
            .state
            .request(&MUTEX, &name, &Options::default())
            .unwrap();
        let now = engine.clock.now();
        let token = engine.ids.token(request.terms.fences, now).unwrap();
        let acquire = Acquire {
            held: &Held { resource, token },
            terms: request.terms,
            waits: true,
            channel: "",
            range: 1,
        };
        engine.background().unwrap(); // watches the timeouts of batches
        let within = Duration::from_secs(3);
        let acquires = &engine.requests.acquires;
        let alone = acquires.solo_permit();
        let mut asking = pin!(
            engine
                .requests
                .acquire(&acquire, engine.clock.now(), within)
        );
        let mut context = Context::from_waker(Waker::noop());
        assert!(asking.as_mut().poll(&mut context).is_pending());
        drop(alone);
        while !acquires.is_free() {
            tokio::task::yield_now().await; // its batch is under way
        }
        thread::sleep(within); // as a runtime that is busy
        let refused = asking.await.unwrap_err();
        assert!(!refused.maybe_applied(), "{refused}");
        let seen = holder.inspect("job").await.unwrap();
        assert!(seen.queue.is_empty());
    }
}
