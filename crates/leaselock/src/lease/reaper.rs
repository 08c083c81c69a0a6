//! Cleans up after callers who went away: dropped leases, cancelled acquisitions, requests whose outcome is unknown.
//!
//! Whatever might exist on the server is remembered before the request is sent and is paid off in the background,
//! never by the caller's own deadline, until it cannot matter any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};

use crate::clock::{Clock, Moment};
use crate::combine::Combiner;
use crate::error::StoreError;
use crate::fence::Fence;
use crate::keys::MutexKeys;
use crate::mutex::many::{Item, Releases, Terms};
use crate::mutex::steps::{Cancel, Release};
use crate::options::DEFAULT_TTL;
use crate::protocol::claim::Claim;
use crate::store::Store;
use crate::token::Token;

/// Pauses between tries while the store does not answer; the last one repeats.
const PAUSES_MS: [u64; 5] = [0, 50, 200, 1000, 3000];
/// A request that was cut off may be processed a moment after the first clean-up, which goes another way. Whoever
/// closes the client waits for this look.
const SECOND_LOOK: Duration = Duration::from_millis(100);
/// By now a server that had stalled has worked off what it was sent. Nobody waits for this one.
const THIRD_LOOK: Duration = Duration::from_secs(1);
/// A stalled server may carry out old requests when it goes on, so trying does not end with the ttl.
const PATIENCE_BEYOND: Duration = Duration::from_secs(60);
const TRY_WITHIN: Duration = Duration::from_secs(1);

/// Something that may exist on the server and that nobody uses.
#[derive(Debug)]
pub(crate) struct Owed {
    keys: MutexKeys,
    token: Token,
    /// The highest fencing token in use.
    used: Option<Fence>,
    /// By this moment it has ended by itself.
    until: Moment,
    /// A request of it may still be on its way.
    in_flight: bool,
    /// How it was taken, when not in the native way.
    claim: Option<Arc<Claim>>,
}

impl Owed {
    /// A lease that was given up; no request of it is on its way.
    pub(crate) fn release(
        keys: MutexKeys,
        token: Token,
        used: Option<Fence>,
        until: Moment,
    ) -> Self {
        Owed {
            keys,
            token,
            used,
            until,
            in_flight: false,
            claim: None,
        }
    }

    /// Of those that were reserved, this number was used last.
    pub(crate) fn used(mut self, used: Option<Fence>) -> Self {
        self.used = used;
        self
    }

    /// It is given back in another way than the native one.
    pub(crate) fn claimed(mut self, claim: Option<Arc<Claim>>) -> Self {
        self.claim = claim;
        self
    }

    /// An acquisition that may have succeeded or may yet succeed.
    pub(crate) fn acquisition(keys: MutexKeys, token: Token, until: Moment) -> Self {
        Owed {
            keys,
            token,
            used: None,
            until,
            in_flight: true,
            claim: None,
        }
    }
}

/// Takes what is owed, from any thread, without blocking.
///
/// Every acquisition and every release has one of its own for a moment, so a clone is one count and no more.
#[derive(Debug, Clone)]
pub(crate) struct Reaper(Arc<Desk>);

#[derive(Debug)]
struct Desk {
    queue: mpsc::UnboundedSender<Owed>,
    tally: Arc<Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    open: AtomicUsize,
    paid: AtomicUsize,
    given_up: AtomicUsize,
    changed: Notify,
    hurry: Notify,
}

/// The receiving end, to be run on the client's thread.
#[derive(Debug)]
pub(crate) struct Reaping {
    queue: mpsc::UnboundedReceiver<Owed>,
    tally: Arc<Tally>,
}

impl Reaper {
    pub(crate) fn new() -> (Self, Reaping) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let tally = Arc::new(Tally::default());
        (
            Reaper(Arc::new(Desk {
                queue: sender,
                tally: Arc::clone(&tally),
            })),
            Reaping {
                queue: receiver,
                tally,
            },
        )
    }

    pub(crate) fn take(&self, owed: Owed) {
        self.0.tally.open.fetch_add(1, Ordering::SeqCst);
        if self.0.queue.send(owed).is_err() {
            self.0.tally.settle(false); // the thread is gone with the process; the ttl is the last line
        }
    }

    /// The store is back: what waits for its next try goes now.
    pub(crate) fn hurry(&self) {
        self.0.tally.hurry.notify_waiters();
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

impl Tally {
    fn settle(&self, paid: bool) {
        let counter = if paid { &self.paid } else { &self.given_up };
        counter.fetch_add(1, Ordering::SeqCst);
        self.open.fetch_sub(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }
}

impl Reaping {
    /// Runs until no one can owe anything any more.
    pub(crate) async fn run(mut self, store: Store, clock: Clock) {
        let way = Arc::new(Way {
            releases: Combiner::new(store.clone(), clock.clone(), Arc::default(), true),
            store,
            clock,
            tally: Arc::clone(&self.tally),
        });
        drop(tokio::spawn(way.releases.watch()));
        while let Some(owed) = self.queue.recv().await {
            let way = Arc::clone(&way);
            drop(tokio::spawn(async move {
                let mut paid = way.pay(&owed).await;
                if owed.in_flight && paid {
                    tokio::time::sleep(SECOND_LOOK).await;
                    paid = way.pay(&owed).await;
                }
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
struct Way {
    /// Leases that were dropped together are given back together.
    releases: Combiner<Releases>,
    store: Store,
    clock: Clock,
    tally: Arc<Tally>,
}

impl Way {
    /// True once the store has confirmed that nothing is left.
    async fn pay(&self, owed: &Owed) -> bool {
        let give_up_at = owed.until.plus(PATIENCE_BEYOND);
        for round in 0.. {
            let pause = PAUSES_MS
                .get(round)
                .or(PAUSES_MS.last())
                .copied()
                .unwrap_or(0);
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(pause)) => {}
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
        false
    }

    async fn try_once(&self, owed: &Owed) -> Result<(), StoreError> {
        if let Some(claim) = &owed.claim {
            claim.clean_up(&self.store, TRY_WITHIN).await
        } else if owed.in_flight || owed.used.is_some() {
            self.cancel(owed).await
        } else {
            self.release(owed).await
        }
    }

    /// What may be in line, or may still get there.
    async fn cancel(&self, owed: &Owed) -> Result<(), StoreError> {
        let cancel = Cancel {
            keys: &owed.keys,
            token: &owed.token,
            used: owed.used,
        };
        self.store.ask(&cancel, TRY_WITHIN).await.map(drop)
    }

    /// What was a lease, and with that out of line.
    async fn release(&self, owed: &Owed) -> Result<(), StoreError> {
        let release = Release {
            keys: &owed.keys,
            token: &owed.token,
            used: None,
        };
        let item = || Item {
            keys: owed.keys.clone(),
            token: owed.token.clone(),
            terms: Terms {
                ttl: DEFAULT_TTL,
                fencing: true,
            },
        };
        self.releases
            .ask(&release, item, TRY_WITHIN)
            .await
            .map(drop)
    }
}

/// Owes something until it is settled: made before a request is sent, so that no drop, panic or error in between
/// leaves a lock behind.
#[derive(Debug)]
pub(crate) struct Debt {
    reaper: Reaper,
    owed: Option<Owed>,
}

impl Debt {
    pub(crate) fn new(reaper: Reaper, owed: Owed) -> Self {
        Debt {
            reaper,
            owed: Some(owed),
        }
    }

    /// What may exist on the server ends at the latest then.
    pub(crate) fn lasts_until(&mut self, until: Moment) {
        if let Some(owed) = &mut self.owed {
            owed.until = owed.until.max(until);
        }
    }

    /// Nothing is owed: the store said so, or the lease has an owner now.
    pub(crate) fn settle(mut self) {
        self.owed = None;
    }
}

impl Drop for Debt {
    fn drop(&mut self) {
        if let Some(owed) = self.owed.take() {
            self.reaper.take(owed);
        }
    }
}
