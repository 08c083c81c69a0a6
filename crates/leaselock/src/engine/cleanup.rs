//! Cleanup in the background: dropped leases, cancelled acquisitions, requests whose outcome is unknown.
//!
//! A [`CleanupGuard`] exists before a request is sent that may leave something on the server. Cleanup undoes that in
//! the background, independently of the caller's timeout, and retries until a leftover can do no harm any more.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};

use super::batch::Batcher;
use super::batch::kinds::Releases;
use super::calls::{Cancel, Release};
use super::calls_many::Item;
use crate::base::backoff::Backoff;
use crate::base::clock::{Clock, Moment};
use crate::base::error::StoreError;
use crate::base::fence::Fence;
use crate::base::token::Token;
use crate::base::ttl::DEFAULT_TTL;
use crate::engine::custom::CustomLock;
use crate::engine::resource::Resource;
use crate::quorum::executor::Executor;

/// Pauses between two attempts while the store does not reply; the last one repeats.
const PAUSES_MS: &[u64] = &[0, 50, 200, 1000, 3000];
/// When the second attempt follows the first: the server may run a request that was cut off just after the first
/// cleanup, which uses another connection. Closing the client waits for this attempt.
const SECOND_LOOK: Duration = Duration::from_millis(100);
/// When the third attempt follows: a server that had stalled has run its pending requests by then. Closing the client
/// does not wait for this attempt.
const THIRD_LOOK: Duration = Duration::from_secs(1);
/// How long cleanup retries after the ttl: a stalled server may run old requests when it goes on.
const PATIENCE_BEYOND: Duration = Duration::from_secs(60);
const TRY_WITHIN: Duration = Duration::from_secs(1);
/// How many finished queue entries are remembered. A server that was promoted without their removal may find them at
/// the head of its queue, so only recent ones matter.
const FORMER_MOST: usize = 256;
/// The pause before the cleanup of such an entry. Its server may lack the true holder's lease too; the holder learns of
/// that within this time, once its client is connected to the server. In strict mode the server grants nothing earlier.
const HOLDERS_ARE_TOLD: Duration = Duration::from_secs(1);

/// What may exist on the server without a user: a lease, a queue entry, or the effect of a request in flight.
#[derive(Debug)]
pub(crate) struct PendingCleanup {
    keys: Resource,
    token: Token,
    /// The highest fencing token in use.
    used: Option<Fence>,
    /// It has expired by this moment.
    until: Moment,
    /// True if one of its requests may still be in flight.
    in_flight: bool,
    /// True if it was in the queue: a server that missed its removal may grant it once more.
    queued: bool,
    /// The protocol by which it was acquired, unless that is the native one.
    custom: Option<Arc<dyn CustomLock>>,
    /// The pause before the first attempt.
    rests: Duration,
}

impl PendingCleanup {
    /// Creates the cleanup of a lease that its holder gave up; none of its requests is in flight.
    pub(crate) fn release(
        keys: Resource,
        token: Token,
        used: Option<Fence>,
        until: Moment,
    ) -> Self {
        PendingCleanup {
            keys,
            token,
            used,
            until,
            in_flight: false,
            queued: false,
            custom: None,
            rests: Duration::ZERO,
        }
    }

    /// Sets the last fencing token in use, of those that were reserved.
    pub(crate) fn used(mut self, used: Option<Fence>) -> Self {
        self.used = used;
        self
    }

    /// Sets whether it was in the queue.
    pub(crate) fn queued(mut self, queued: bool) -> Self {
        self.queued = queued;
        self
    }

    /// Sets the pause before the first attempt.
    fn after(mut self, rests: Duration) -> Self {
        self.rests = rests;
        self
    }

    /// Sets the protocol by which it is released; `None` for the native one.
    pub(crate) fn with_custom(mut self, custom: Option<Arc<dyn CustomLock>>) -> Self {
        self.custom = custom;
        self
    }

    /// Creates the cleanup of an acquisition that may have succeeded or may yet succeed.
    pub(crate) fn acquisition(keys: Resource, token: Token, until: Moment) -> Self {
        PendingCleanup {
            keys,
            token,
            used: None,
            until,
            in_flight: true,
            queued: false,
            custom: None,
            rests: Duration::ZERO,
        }
    }
}

/// Queues cleanups, from any thread, without blocking.
///
/// Every acquisition and every release clones one for a moment, so a clone is one reference count and no more.
#[derive(Debug, Clone)]
pub(crate) struct Cleanup(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    queue: mpsc::UnboundedSender<PendingCleanup>,
    tally: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    /// The latest finished queue entries; no task uses their tokens any more.
    former: Mutex<VecDeque<(Token, Resource)>>,
    open: AtomicUsize,
    paid: AtomicUsize,
    given_up: AtomicUsize,
    changed: Notify,
    hurry: Notify,
}

/// The receiving end, which runs on the client's thread.
#[derive(Debug)]
pub(crate) struct CleanupTask {
    queue: mpsc::UnboundedReceiver<PendingCleanup>,
    tally: Arc<Counters>,
}

impl Cleanup {
    pub(crate) fn new() -> (Self, CleanupTask) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let tally = Arc::new(Counters::default());
        (
            Cleanup(Arc::new(Shared {
                queue: sender,
                tally: Arc::clone(&tally),
            })),
            CleanupTask {
                queue: receiver,
                tally,
            },
        )
    }

    pub(crate) fn take(&self, owed: PendingCleanup) {
        self.0.tally.open.fetch_add(1, Ordering::SeqCst);
        if self.0.queue.send(owed).is_err() {
            self.0.tally.settle(false); // the process is ending: the ttl is the last resort
        }
    }

    /// Ends the pauses between attempts: the store is back.
    pub(crate) fn hurry(&self) {
        self.0.tally.hurry.notify_waiters();
    }

    /// Handles a wake-up for a token that no task waits with.
    ///
    /// Pending cleanups run now, in case one is for this token. If the token's queue entry was finished, a server found
    /// the entry that missed its removal, and a cleanup follows.
    pub(crate) fn is_called(&self, token: Option<Token>, now: Moment) {
        self.hurry();
        if let Some((token, keys)) = token.and_then(|token| self.0.tally.take_former(&token)) {
            let rests = match keys.gate {
                Some(_) => Duration::ZERO,
                None => HOLDERS_ARE_TOLD,
            };
            let owed = PendingCleanup::acquisition(keys, token, now).queued(true);
            self.take(owed.after(rests));
        }
    }

    /// Waits until no cleanup is pending. Returns how many were confirmed so far, and how many were not.
    pub(crate) async fn drained(&self, clock: &Clock, within: Duration) -> (usize, usize) {
        let end = clock.now().plus(within);
        loop {
            let changed = self.0.tally.changed.notified();
            let open = self.0.tally.open.load(Ordering::SeqCst);
            if open == 0 || clock.now() >= end {
                let paid = self.0.tally.paid.load(Ordering::SeqCst);
                return (paid, open + self.0.tally.given_up.load(Ordering::SeqCst));
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(Duration::from_millis(50)) => {}
            }
        }
    }
}

impl Counters {
    fn former(&self) -> MutexGuard<'_, VecDeque<(Token, Resource)>> {
        self.former.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, owed: &PendingCleanup) {
        if !owed.queued {
            return;
        }
        let mut former = self.former();
        if former.len() == FORMER_MOST {
            former.pop_front();
        }
        former.push_back((owed.token.clone(), owed.keys.clone()));
    }

    fn take_former(&self, token: &Token) -> Option<(Token, Resource)> {
        let mut former = self.former();
        let place = former.iter().rposition(|(its, _)| its == token)?;
        former.remove(place)
    }

    fn settle(&self, paid: bool) {
        let counter = if paid { &self.paid } else { &self.given_up };
        counter.fetch_add(1, Ordering::SeqCst);
        self.open.fetch_sub(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }
}

impl CleanupTask {
    /// Runs until no [`Cleanup`] exists any more.
    pub(crate) async fn run(mut self, store: Executor, clock: Clock) {
        let way = Arc::new(CleanupClient {
            releases: Batcher::new(store.clone(), clock.clone(), Arc::default(), true),
            store,
            clock,
            tally: Arc::clone(&self.tally),
        });
        drop(tokio::spawn(way.releases.watch()));
        while let Some(owed) = self.queue.recv().await {
            let way = Arc::clone(&way);
            drop(tokio::spawn(async move {
                if !owed.rests.is_zero() {
                    tokio::time::sleep(owed.rests).await;
                }
                let mut paid = way.pay(&owed).await;
                if owed.in_flight && paid {
                    tokio::time::sleep(SECOND_LOOK).await;
                    paid = way.pay(&owed).await;
                }
                way.tally.remember(&owed);
                way.tally.settle(paid);
                if owed.in_flight && paid {
                    tokio::time::sleep(THIRD_LOOK).await;
                    drop(way.try_once(&owed).await);
                }
            }));
        }
    }
}

/// Sends cleanup requests to the store.
struct CleanupClient {
    /// Batches the releases of leases that were dropped at the same moment.
    releases: Batcher<Releases>,
    store: Executor,
    clock: Clock,
    tally: Arc<Counters>,
}

impl CleanupClient {
    /// Retries until the store has confirmed that nothing is left, and returns true; false when it gives up.
    async fn pay(&self, owed: &PendingCleanup) -> bool {
        let give_up_at = owed.until.plus(PATIENCE_BEYOND);
        let mut backoff = Backoff::new(PAUSES_MS);
        loop {
            tokio::select! {
                () = tokio::time::sleep(backoff.next()) => {}
                () = self.tally.hurry.notified() => {}
            }
            let Err(error) = self.try_once(owed).await else {
                return true;
            };
            tracing::debug!(lock = %owed.keys.lock, %error, "clean-up will be tried again");
            if self.clock.now() >= give_up_at {
                return false;
            }
        }
    }

    async fn try_once(&self, owed: &PendingCleanup) -> Result<(), StoreError> {
        if let Some(custom) = &owed.custom {
            custom.clean_up(&self.store, TRY_WITHIN).await
        } else if owed.in_flight || owed.used.is_some() {
            self.cancel(owed).await
        } else {
            self.release(owed).await
        }
    }

    /// Cancels an acquisition that may be in the queue, or may still join it.
    async fn cancel(&self, owed: &PendingCleanup) -> Result<(), StoreError> {
        let cancel = Cancel {
            keys: &owed.keys,
            token: &owed.token,
            used: owed.used,
        };
        self.store.ask(&cancel, TRY_WITHIN).await.map(drop)
    }

    /// Releases a lease, which has no queue entry any more.
    async fn release(&self, owed: &PendingCleanup) -> Result<(), StoreError> {
        let release = Release {
            keys: &owed.keys,
            token: &owed.token,
            used: None,
        };
        let item = || Item::of(&owed.keys, &owed.token, DEFAULT_TTL, true);
        self.releases
            .ask(&release, item, TRY_WITHIN)
            .await
            .map(drop)
    }
}

/// Queues a cleanup when it is dropped, unless it was disarmed.
///
/// The caller creates it before it sends a request, so that no drop, panic or error in between leaves a lock behind.
#[derive(Debug)]
pub(crate) struct CleanupGuard {
    cleanup: Cleanup,
    owed: Option<PendingCleanup>,
}

impl CleanupGuard {
    pub(crate) fn new(cleanup: Cleanup, owed: PendingCleanup) -> Self {
        CleanupGuard {
            cleanup,
            owed: Some(owed),
        }
    }

    /// Sets the moment by which what may exist on the server has expired.
    pub(crate) fn lasts_until(&mut self, until: Moment) {
        if let Some(owed) = &mut self.owed {
            owed.until = owed.until.max(until);
        }
    }

    /// Notes that the store confirmed the queue entry.
    pub(crate) fn set_queued(&mut self) {
        if let Some(owed) = &mut self.owed {
            owed.queued = true;
        }
    }

    /// Disarms the guard: the store never had it, or the lease has an owner now. True if it was in the queue.
    pub(crate) fn settle(mut self) -> bool {
        self.owed.take().is_some_and(|owed| owed.queued)
    }

    /// Drops the guard if the store may have it, and disarms it otherwise.
    pub(crate) fn settle_unless(self, may_exist: bool) {
        if !may_exist {
            self.settle();
        }
    }

    /// Disarms the guard: the store confirmed the end.
    pub(crate) fn end(mut self) {
        if let Some(owed) = self.owed.take() {
            self.cleanup.0.tally.remember(&owed);
        }
    }
}

impl Drop for CleanupGuard {
    fn drop(&mut self) {
        if let Some(owed) = self.owed.take() {
            self.cleanup.take(owed);
        }
    }
}
