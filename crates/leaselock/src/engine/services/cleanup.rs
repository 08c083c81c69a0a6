//! Cleanup in the background: dropped leases, cancelled acquisitions, requests whose outcome is unknown.
//!
//! A [`CleanupGuard`] exists before a request is sent that may leave something on the server. Cleanup undoes that in
//! the background, independently of the caller's timeout, and retries until a leftover can do no harm any more.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};

use super::batch::batcher::Batcher;
use super::batch::driver::Releases;
use crate::base::backoff::Backoff;
use crate::base::{Clock, Moment, StoreError, Token, hold};
use crate::engine::values::{Cancel, CustomLock, Held, LockServer, Release};
use crate::quorum::executor::Executor;

/// Pauses between two attempts while the store does not reply; the last one repeats.
pub(super) const PAUSES_MS: &[u64] = &[0, 50, 200, 1000, 3000];
/// When the second attempt follows the first: the server may run a request that was cut off just after the first
/// cleanup, which uses another connection. Closing the client waits for this attempt.
pub(super) const SECOND_ATTEMPT_AFTER: Duration = Duration::from_millis(100);
/// When the third attempt follows: a server that had stalled has run its pending requests by then. Closing the client
/// does not wait for this attempt.
const THIRD_ATTEMPT_AFTER: Duration = Duration::from_secs(1);
/// How long cleanup retries after the ttl: a stalled server may run old requests when it goes on.
const RETRY_BEYOND_TTL: Duration = Duration::from_secs(60);
const TRY_WITHIN: Duration = Duration::from_secs(1);
/// How many finished queue entries are remembered. A server that was promoted without their removal may find them at
/// the head of its queue, so only recent ones matter.
const FINISHED_MAX: usize = 256;
/// The pause before the cleanup of such an entry. Its server may lack the true holder's lease too; the holder learns of
/// that within this time, once its client is connected to the server. In strict mode the server grants nothing earlier.
const HOLDERS_LEARN_WITHIN: Duration = Duration::from_secs(1);

/// What may exist on the server without a user: a lease, a queue entry, or the effect of a request in flight.
#[derive(Debug)]
pub(crate) struct PendingCleanup {
    held: Held,
    /// It has expired by this moment.
    until: Moment,
    /// True if one of its requests may still be in flight.
    in_flight: bool,
    /// True if it was in the queue: a server that missed its removal may grant it once more.
    queued: bool,
    /// The protocol by which it was acquired, unless that is the native one.
    custom: Option<Arc<dyn CustomLock>>,
    /// The pause before the first attempt.
    delay: Duration,
}

impl PendingCleanup {
    /// Creates the cleanup of a lease that its holder gave up; none of its requests is in flight.
    pub(crate) fn release(held: Held, until: Moment) -> Self {
        PendingCleanup {
            held,
            until,
            in_flight: false,
            queued: false,
            custom: None,
            delay: Duration::ZERO,
        }
    }

    pub(crate) fn queued(mut self, queued: bool) -> Self {
        self.queued = queued;
        self
    }

    /// Sets the protocol by which it is released; `None` for the native one.
    pub(crate) fn with_custom(mut self, custom: Option<Arc<dyn CustomLock>>) -> Self {
        self.custom = custom;
        self
    }

    /// Creates the cleanup of an acquisition that may have succeeded or may yet succeed.
    pub(crate) fn acquisition(held: Held, until: Moment) -> Self {
        PendingCleanup {
            in_flight: true,
            ..PendingCleanup::release(held, until)
        }
    }
}

/// Queues cleanups, from any thread, without blocking.
///
/// Every acquisition and every release clones one for a moment, so a clone is one reference count and no more.
#[derive(Debug, Clone)]
pub(crate) struct Cleanup(Arc<CleanupQueue>);

#[derive(Debug)]
struct CleanupQueue {
    queue: mpsc::UnboundedSender<(PendingCleanup, OpenCleanup)>,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    /// The latest finished queue entries; no task uses their tokens any more.
    finished: Mutex<VecDeque<Held>>,
    open: AtomicUsize,
    confirmed: AtomicUsize,
    given_up: AtomicUsize,
    changed: Notify,
    retry_now: Notify,
}

/// A cleanup that is to be done. Closing the client waits until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenCleanup {
    counters: Arc<Counters>,
    is_confirmed: bool,
}

impl OpenCleanup {
    /// Waits before an attempt, at most until the store is back.
    pub(super) async fn pause(&self, pause: Duration) {
        self.counters.pause(pause).await;
    }

    /// `confirmed`: the store has said that nothing is left.
    pub(crate) fn end(mut self, confirmed: bool) {
        self.is_confirmed = confirmed;
    }
}

impl Drop for OpenCleanup {
    fn drop(&mut self) {
        let counters = &self.counters;
        let counter = match self.is_confirmed {
            true => &counters.confirmed,
            false => &counters.given_up,
        };
        counter.fetch_add(1, Ordering::SeqCst);
        counters.open.fetch_sub(1, Ordering::SeqCst);
        counters.changed.notify_waiters();
    }
}

/// The receiving end, which runs on the client's thread.
#[derive(Debug)]
pub(crate) struct CleanupTask {
    queue: mpsc::UnboundedReceiver<(PendingCleanup, OpenCleanup)>,
    counters: Arc<Counters>,
}

impl Cleanup {
    pub(crate) fn new() -> (Self, CleanupTask) {
        let (queue, receiver) = mpsc::unbounded_channel();
        let counters = Arc::new(Counters::default());
        let task = CleanupTask {
            queue: receiver,
            counters: Arc::clone(&counters),
        };
        (Cleanup(Arc::new(CleanupQueue { queue, counters })), task)
    }

    pub(crate) fn take(&self, pending: PendingCleanup) {
        drop(self.0.queue.send((pending, self.begin()))); // an error: the process is ending, and the ttl is the last resort
    }

    /// Counts a cleanup as open until the returned value is dropped.
    pub(crate) fn begin(&self) -> OpenCleanup {
        self.0.counters.open.fetch_add(1, Ordering::SeqCst);
        OpenCleanup {
            counters: Arc::clone(&self.0.counters),
            is_confirmed: false,
        }
    }

    pub(crate) fn open(&self) -> usize {
        self.0.counters.open.load(Ordering::SeqCst)
    }

    /// Ends the pauses between attempts: the store is back.
    pub(crate) fn retry_now(&self) {
        self.0.counters.retry_now.notify_waiters();
    }

    /// Handles a wake-up for a token that no task waits with.
    ///
    /// Pending cleanups run now, in case one is for this token. If the token's queue entry was finished, a server found
    /// the entry that missed its removal, and a cleanup follows.
    pub(crate) fn on_unexpected_message(&self, token: Option<Token>, now: Moment) {
        self.retry_now();
        let known = token.and_then(|token| self.0.counters.take_finished(&token));
        if let Some(held) = known {
            let delay = match held.resource.gate {
                Some(_) => Duration::ZERO,
                None => HOLDERS_LEARN_WITHIN,
            };
            let pending = PendingCleanup::acquisition(held, now).queued(true);
            self.take(PendingCleanup { delay, ..pending });
        }
    }

    /// Waits until no cleanup is pending or `to_come`. Returns how many were confirmed so far, and how many were not.
    pub(crate) async fn drained(
        &self,
        clock: &Clock,
        within: Duration,
        to_come: impl Fn() -> usize,
    ) -> (usize, usize) {
        let end = clock.now().plus(within);
        loop {
            let changed = self.0.counters.changed.notified();
            let open = to_come() + self.open(); // open before it is not to come
            if open == 0 || clock.now() >= end {
                let confirmed = self.0.counters.confirmed.load(Ordering::SeqCst);
                let given_up = self.0.counters.given_up.load(Ordering::SeqCst);
                return (confirmed, open + given_up);
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(Duration::from_millis(50)) => {}
            }
        }
    }
}

impl Counters {
    /// Remembers a queue entry: of a release before its request is sent, because the message of a server that was promoted
    /// may come before the reply; of an acquisition once it was undone, because until then its message is nothing unusual.
    fn remember(&self, pending: &PendingCleanup, is_over: bool) {
        if !pending.queued || pending.in_flight != is_over {
            return;
        }
        let mut finished = hold(&self.finished);
        if finished.len() == FINISHED_MAX {
            finished.pop_front();
        }
        finished.push_back(pending.held.clone());
    }

    fn take_finished(&self, token: &Token) -> Option<Held> {
        let mut finished = hold(&self.finished);
        let index = finished.iter().rposition(|its| its.token == *token)?;
        finished.remove(index)
    }

    /// Ends early when the store is back.
    async fn pause(&self, pause: Duration) {
        drop(tokio::time::timeout(pause, self.retry_now.notified()).await);
    }
}

impl CleanupTask {
    /// Runs until no [`Cleanup`] exists any more.
    pub(crate) async fn run(mut self, store: Executor, clock: Clock) {
        let client = Arc::new(CleanupClient {
            releases: Batcher::new(&store, &clock, &Arc::default(), true),
            store,
            clock,
            counters: Arc::clone(&self.counters),
        });
        drop(tokio::spawn(client.releases.watch()));
        while let Some((pending, open)) = self.queue.recv().await {
            let client = Arc::clone(&client);
            drop(tokio::spawn(async move {
                if !pending.delay.is_zero() {
                    tokio::time::sleep(pending.delay).await;
                }
                let mut confirmed = client.retry_until_done(&pending).await;
                if pending.in_flight && confirmed {
                    tokio::time::sleep(SECOND_ATTEMPT_AFTER).await;
                    confirmed = client.retry_until_done(&pending).await;
                }
                client.counters.remember(&pending, true);
                open.end(confirmed);
                if pending.in_flight && confirmed {
                    tokio::time::sleep(THIRD_ATTEMPT_AFTER).await;
                    drop(client.try_once(&pending).await);
                }
            }));
        }
    }
}

struct CleanupClient {
    /// Batches the releases of leases that were dropped at the same moment.
    releases: Batcher<Releases>,
    store: Executor,
    clock: Clock,
    counters: Arc<Counters>,
}

impl CleanupClient {
    /// Retries until the store has confirmed that nothing is left, and returns true; false when it gives up.
    async fn retry_until_done(&self, pending: &PendingCleanup) -> bool {
        let give_up_at = pending.until.plus(RETRY_BEYOND_TTL);
        let mut backoff = Backoff::new(PAUSES_MS);
        loop {
            self.counters.pause(backoff.next()).await;
            let Err(error) = self.try_once(pending).await else {
                return true;
            };
            tracing::debug!(target: "leaselock", lock = %pending.held.resource.lock, %error, "clean-up will be tried again");
            if self.clock.now() >= give_up_at {
                return false;
            }
        }
    }

    async fn try_once(&self, pending: &PendingCleanup) -> Result<(), StoreError> {
        let held = &pending.held;
        if let Some(custom) = &pending.custom {
            let server = LockServer::new(&self.store, TRY_WITHIN);
            custom.clean_up(server).await
        } else if pending.in_flight {
            // It may be in the queue, or may still join it.
            self.store.ask(&Cancel { held }, TRY_WITHIN).await.map(drop)
        } else {
            // A lease has no queue entry any more.
            let release = Release {
                held,
                was_queued: pending.queued,
            };
            let found = self.releases.release(&release, TRY_WITHIN).await?;
            let broken = self.releases.release_broken(&release, found, TRY_WITHIN);
            broken.await.map(drop)
        }
    }
}

/// Queues a cleanup when it is dropped, unless it was disarmed.
///
/// The caller creates it before it sends a request, so that no drop, panic or error in between leaves a lock behind.
#[derive(Debug)]
pub(crate) struct CleanupGuard {
    cleanup: Cleanup,
    pending: Option<PendingCleanup>,
}

impl CleanupGuard {
    pub(crate) fn new(cleanup: Cleanup, pending: PendingCleanup) -> Self {
        cleanup.0.counters.remember(&pending, false);
        CleanupGuard {
            cleanup,
            pending: Some(pending),
        }
    }

    /// Sets the moment by which what may exist on the server has expired.
    pub(crate) fn lasts_until(&mut self, until: Moment) {
        if let Some(pending) = &mut self.pending {
            pending.until = pending.until.max(until);
        }
    }

    /// Notes that the store confirmed the queue entry.
    pub(crate) fn set_queued(&mut self) {
        if let Some(pending) = &mut self.pending {
            pending.queued = true;
        }
    }

    /// Disarms the guard: the store never had it, or the lease has an owner now. True if it was in the queue.
    pub(crate) fn settle(mut self) -> bool {
        self.pending.take().is_some_and(|pending| pending.queued)
    }

    /// Drops the guard if the store may have it, and disarms it otherwise.
    pub(crate) fn settle_unless(self, may_exist: bool) {
        if !may_exist {
            self.settle();
        }
    }

    /// Disarms the guard: the store confirmed the end.
    pub(crate) fn end(mut self) {
        if let Some(pending) = self.pending.take() {
            self.cleanup.0.counters.remember(&pending, true);
        }
    }
}

impl Drop for CleanupGuard {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.cleanup.take(pending);
        }
    }
}
