//! Sends batches, one call after the other, until the queue is empty; and what callers, the sending task and the watch over
//! timeouts share.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use super::queue::{BatchOutcome, BatchQueue, BatchSlot, Late, Sent};
use crate::base::{Clock, ErrorKind, Moment, Result, StoreError, hold, refusal};
use crate::engine::values::ballot::vote_together;
use crate::engine::values::calls_many::{AcquireMany, ReleaseMany};
use crate::engine::values::{Acquired, Item, ReleaseAnswer, Replies};
use crate::quorum::executor::Executor;

pub(crate) trait Batchable: Send + Sync + 'static {
    type Reply: Send + 'static;

    /// Sends one call for all items, and returns the reply of each. All go with the first, and they are at most
    /// [`MANY_MAX`](crate::engine::values::calls_many::MANY_MAX).
    fn ask(
        store: &Executor,
        items: &[Item],
        within: Duration,
    ) -> impl Future<Output = Result<Replies<Self::Reply>>> + Send;
}

#[derive(Debug)]
pub(crate) struct Acquires;

impl Batchable for Acquires {
    type Reply = Acquired;

    /// On a quorum, the nodes vote on the items.
    async fn ask(store: &Executor, items: &[Item], within: Duration) -> Result<Replies<Acquired>> {
        match store.majority() {
            Some(quorum) => Box::pin(vote_together(quorum, items, within)).await,
            None => store.ask(&AcquireMany { items }, within).await,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Releases;

impl Batchable for Releases {
    type Reply = ReleaseAnswer;

    async fn ask(
        store: &Executor,
        items: &[Item],
        within: Duration,
    ) -> Result<Replies<ReleaseAnswer>> {
        store.ask(&ReleaseMany { items }, within).await
    }
}

pub(super) struct BatchState<B: Batchable> {
    pub(super) queue: Mutex<BatchQueue<B::Reply>>,
    pub(super) store: Executor,
    pub(super) clock: Clock,
    pub(super) contended: Arc<ContentionFilter>,
    /// True if a task watches the timeouts of queued requests.
    pub(super) is_watched: AtomicBool,
    pub(super) wake_watch: Arc<Notify>,
}

impl<B: Batchable> BatchState<B> {
    /// Fails the requests that have timed out, and returns the moment of the next timeout.
    pub(super) fn sweep(&self) -> Option<Moment> {
        let now = self.clock.now();
        let (late, next) = hold(&self.queue).sweep(now);
        for late in late {
            match late {
                Late::InQueue(reply) => {
                    reply.set(BatchOutcome::Answer(Err(self.not_sent_in_time())))
                }
                Late::OnTheWay(sent) => {
                    let over = sent.iter().filter(|asked| now >= asked.until);
                    let failed = || BatchOutcome::Answer(Err(self.no_reply_in_time()));
                    over.for_each(|asked| asked.reply.set(failed()));
                }
            }
        }
        next
    }

    pub(super) fn no_reply_in_time(&self) -> StoreError {
        let store = self.store.describe();
        StoreError::unknown(ErrorKind::NoReply, format!("no reply from {store} in time"))
    }

    pub(super) fn not_sent_in_time(&self) -> StoreError {
        let store = self.store.describe();
        refusal!(NoReply: "no reply from {store} to earlier requests in time")
    }
}

// Names that were contended lately. Their requests are sent alone: a batch serves only what is granted at once, so a
// contended name would cost one call more. A name that only readers hold is not contended for a read.

/// How long a name counts as contended after it was last found contended.
const REMEMBERED: Duration = Duration::from_secs(1);
/// Names share cells by their hash. A name that shares the cell of a contended one is sent alone, which is never wrong.
const CELLS: usize = 512;

#[derive(Debug)]
pub(crate) struct ContentionFilter {
    /// When a name of each cell was last found contended, in nanoseconds; 0 for never.
    found: Box<[AtomicU64]>,
    /// The same of all cells together: mostly no name is contended, and to hash one costs more than the rest.
    latest: AtomicU64,
    hasher: RandomState,
}

impl Default for ContentionFilter {
    fn default() -> Self {
        ContentionFilter {
            found: (0..CELLS).map(|_| AtomicU64::new(0)).collect(),
            latest: AtomicU64::new(0),
            hasher: RandomState::new(),
        }
    }
}

impl ContentionFilter {
    fn cell(&self, lock: &str) -> &AtomicU64 {
        let hash = usize::try_from(self.hasher.hash_one(lock) % CELLS as u64).unwrap_or(0);
        &self.found[hash]
    }

    pub(crate) fn note(&self, lock: &str, now: Moment) {
        self.cell(lock).store(now.as_nanos(), Ordering::Relaxed);
        self.latest.store(now.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn contains(&self, lock: &str, now: Moment) -> bool {
        let is_recent = |found: &AtomicU64| {
            let found = found.load(Ordering::Relaxed);
            found != 0 && now.saturating_since(Moment::from_nanos(found)) < REMEMBERED
        };
        is_recent(&self.latest) && is_recent(self.cell(lock))
    }
}

/// The task that sends batches.
///
/// It is no part of a caller's future: a caller may be dropped, or never be polled again, while other callers wait for
/// the same call.
pub(super) struct BatchDriver<B: Batchable> {
    shared: Arc<BatchState<B>>,
    slot: BatchSlot,
    sent: Option<Sent<B::Reply>>,
}

impl<B: Batchable> BatchDriver<B> {
    pub(super) fn new(shared: Arc<BatchState<B>>, slot: BatchSlot) -> Self {
        let sent = None;
        BatchDriver { shared, slot, sent }
    }

    pub(super) async fn run(mut self) {
        loop {
            // The tasks that the latest replies woke run first, so that their next requests join this batch.
            hold(&self.shared.queue).start_gathering(&self.slot);
            tokio::task::yield_now().await;
            let now = self.shared.clock.now();
            let (items, sent) = hold(&self.shared.queue).take(&self.slot, now);
            if items.is_empty() {
                return;
            }
            self.sent = Some(Arc::clone(&sent));
            let answer = self.send(&items, &sent, now).await;
            self.sent = None;
            self.deliver(answer, &items, &sent);
        }
    }

    /// Sends one call. Its timeout is the longest of its requests; a request with a shorter timeout stops waiting
    /// earlier.
    async fn send(
        &self,
        items: &[Item],
        sent: &Sent<B::Reply>,
        now: Moment,
    ) -> Result<Replies<B::Reply>> {
        let until = sent.iter().map(|asked| asked.until).max().unwrap_or(now);
        B::ask(&self.shared.store, items, until.saturating_since(now)).await
    }

    fn deliver(&self, answer: Result<Replies<B::Reply>>, items: &[Item], sent: &Sent<B::Reply>) {
        match answer {
            Ok(answers) if answers.len() == items.len() => {
                let now = self.shared.clock.now();
                for ((asked, answer), item) in sent.iter().zip(answers).zip(items) {
                    asked.reply.set(match answer {
                        Some(answer) => BatchOutcome::Answer(Ok(answer)),
                        None => {
                            self.shared.contended.note(&item.held.resource.lock, now);
                            BatchOutcome::NotPlain
                        }
                    });
                }
            }
            Ok(_) => {
                let message = "the number of answers is not that of the requests";
                let error = StoreError::unknown(ErrorKind::Malformed, message);
                set_all(sent, || BatchOutcome::Answer(Err(error.clone())));
            }
            // One request of the batch, or the batch as such, may have caused an error that does not pass.
            Err(error) if !error.maybe_applied() && !error.is_transient() => {
                if error.kind() == ErrorKind::Unsupported {
                    hold(&self.shared.queue).disable();
                }
                set_all(sent, || BatchOutcome::Alone);
            }
            Err(error) => set_all(sent, || BatchOutcome::Answer(Err(error.clone()))),
        }
    }
}

fn set_all<R>(sent: &Sent<R>, outcome: impl Fn() -> BatchOutcome<R>) {
    sent.iter().for_each(|asked| asked.reply.set(outcome()));
}

impl<B: Batchable> Drop for BatchDriver<B> {
    fn drop(&mut self) {
        hold(&self.shared.queue).free_slot(&self.slot);
        if let Some(sent) = &self.sent {
            // The task ends with its runtime: the requests in flight may have arrived.
            let message = "the runtime is shutting down";
            let error = StoreError::unknown(ErrorKind::Internal, message);
            set_all(sent, || BatchOutcome::Answer(Err(error.clone())));
        }
    }
}

#[cfg(test)]
mod contention_filter_tests {
    use super::*;

    #[test]
    fn a_name_is_contended_for_a_second_after_it_was_found_so() {
        let contended = ContentionFilter::default();
        let at = Moment::from_nanos(5_000_000_000);
        assert!(!contended.contains("job", at));
        contended.note("job", at);
        assert!(contended.contains("job", at.plus(Duration::from_millis(999))));
        assert!(!contended.contains("job", at.plus(REMEMBERED)));
    }
}
