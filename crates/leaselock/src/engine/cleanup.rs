//! Cleans up after callers who went away: dropped leases, cancelled acquisitions, requests whose outcome is unknown.
//!
//! Whatever might exist on the server is remembered before the request is sent and is paid off in the background,
//! never by the caller's own deadline, until it cannot matter any more.

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

/// Pauses between tries while the store does not answer; the last one repeats.
const PAUSES_MS: &[u64] = &[0, 50, 200, 1000, 3000];
/// A request that was cut off may be processed a moment after the first clean-up, which goes another way. Whoever
/// closes the client waits for this look.
const SECOND_LOOK: Duration = Duration::from_millis(100);
/// By now a server that had stalled has worked off what it was sent. Nobody waits for this one.
const THIRD_LOOK: Duration = Duration::from_secs(1);
/// A stalled server may carry out old requests when it goes on, so trying does not end with the ttl.
const PATIENCE_BEYOND: Duration = Duration::from_secs(60);
const TRY_WITHIN: Duration = Duration::from_secs(1);
/// So many that stood in line are remembered when they are over. A server that is promoted without their end finds them
/// at the head, so those that count are among the latest.
const FORMER_MOST: usize = 256;
/// A server that found such a place may lack the true holder too, who is told within this time that its lease is gone:
/// as soon as its client is connected to that server. In strict mode nobody is granted before.
const HOLDERS_ARE_TOLD: Duration = Duration::from_secs(1);

/// Something that may exist on the server and that nobody uses.
#[derive(Debug)]
pub(crate) struct PendingCleanup {
    keys: Resource,
    token: Token,
    /// The highest fencing token in use.
    used: Option<Fence>,
    /// By this moment it has ended by itself.
    until: Moment,
    /// A request of it may still be on its way.
    in_flight: bool,
    /// It stood in line: whichever server does not know of its end may grant it once more.
    stood: bool,
    /// How it was taken, when not in the native way.
    claim: Option<Arc<dyn CustomLock>>,
    /// It is left alone for so long.
    rests: Duration,
}

impl PendingCleanup {
    /// A lease that was given up; no request of it is on its way.
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
            stood: false,
            claim: None,
            rests: Duration::ZERO,
        }
    }

    /// Of those that were reserved, this number was used last.
    pub(crate) fn used(mut self, used: Option<Fence>) -> Self {
        self.used = used;
        self
    }

    /// It was waited for in line.
    pub(crate) fn stood(mut self, stood: bool) -> Self {
        self.stood = stood;
        self
    }

    /// It is left alone for so long first.
    fn after(mut self, rests: Duration) -> Self {
        self.rests = rests;
        self
    }

    /// It is given back in another way than the native one.
    pub(crate) fn claimed(mut self, claim: Option<Arc<dyn CustomLock>>) -> Self {
        self.claim = claim;
        self
    }

    /// An acquisition that may have succeeded or may yet succeed.
    pub(crate) fn acquisition(keys: Resource, token: Token, until: Moment) -> Self {
        PendingCleanup {
            keys,
            token,
            used: None,
            until,
            in_flight: true,
            stood: false,
            claim: None,
            rests: Duration::ZERO,
        }
    }
}

/// Takes what is owed, from any thread, without blocking.
///
/// Every acquisition and every release has one of its own for a moment, so a clone is one count and no more.
#[derive(Debug, Clone)]
pub(crate) struct Cleanup(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    queue: mpsc::UnboundedSender<PendingCleanup>,
    tally: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    /// The latest that stood in line and are over: nobody uses their tokens any more.
    former: Mutex<VecDeque<(Token, Resource)>>,
    open: AtomicUsize,
    paid: AtomicUsize,
    given_up: AtomicUsize,
    changed: Notify,
    hurry: Notify,
}

/// The receiving end, to be run on the client's thread.
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
            self.0.tally.settle(false); // the thread is gone with the process; the ttl is the last line
        }
    }

    /// The store is back: what waits for its next try goes now.
    pub(crate) fn hurry(&self) {
        self.0.tally.hurry.notify_waiters();
    }

    /// A message has come for a token that nobody waits for. When something is owed for it, that goes now; when it was
    /// over, a server has found it in line that does not know so.
    pub(crate) fn is_called(&self, token: Option<Token>, now: Moment) {
        self.hurry();
        if let Some((token, keys)) = token.and_then(|token| self.0.tally.take_former(&token)) {
            let rests = match keys.gate {
                Some(_) => Duration::ZERO,
                None => HOLDERS_ARE_TOLD,
            };
            let owed = PendingCleanup::acquisition(keys, token, now).stood(true);
            self.take(owed.after(rests));
        }
    }

    /// Waits until nothing is owed; (paid, not confirmed) so far.
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
        if !owed.stood {
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
    /// Runs until no one can owe anything any more.
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

/// How what is owed gets to the store.
struct CleanupClient {
    /// Leases that were dropped together are given back together.
    releases: Batcher<Releases>,
    store: Executor,
    clock: Clock,
    tally: Arc<Counters>,
}

impl CleanupClient {
    /// True once the store has confirmed that nothing is left.
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
        if let Some(claim) = &owed.claim {
            claim.clean_up(&self.store, TRY_WITHIN).await
        } else if owed.in_flight || owed.used.is_some() {
            self.cancel(owed).await
        } else {
            self.release(owed).await
        }
    }

    /// What may be in line, or may still get there.
    async fn cancel(&self, owed: &PendingCleanup) -> Result<(), StoreError> {
        let cancel = Cancel {
            keys: &owed.keys,
            token: &owed.token,
            used: owed.used,
        };
        self.store.ask(&cancel, TRY_WITHIN).await.map(drop)
    }

    /// What was a lease, and with that out of line.
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

/// Owes something until it is settled: made before a request is sent, so that no drop, panic or error in between
/// leaves a lock behind.
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

    /// What may exist on the server ends at the latest then.
    pub(crate) fn lasts_until(&mut self, until: Moment) {
        if let Some(owed) = &mut self.owed {
            owed.until = owed.until.max(until);
        }
    }

    /// The store said that it is in line.
    pub(crate) fn stands_in_line(&mut self) {
        if let Some(owed) = &mut self.owed {
            owed.stood = true;
        }
    }

    /// Nothing is owed: the store never had it, or the lease has an owner now. True when it stood in line.
    pub(crate) fn settle(mut self) -> bool {
        self.owed.take().is_some_and(|owed| owed.stood)
    }

    /// Drops the guard if the store may have it, and settles it otherwise.
    pub(crate) fn settle_unless(self, may_exist: bool) {
        if !may_exist {
            self.settle();
        }
    }

    /// Nothing is owed: the store said that it is over.
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
