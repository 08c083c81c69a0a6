//! Which requests are sent alone, which are queued, and which task sends them: plain state, with the time as an
//! argument.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::base::{ErrorKind, Moment, StoreError, hold};
use crate::engine::values::Item;
use crate::engine::values::calls_many::MANY_MAX;

/// How many requests of a kind may be in flight alone. With more, waiting for a batch is worth it.
const SOLO_MAX: usize = 1;
/// The size of a batch after which the next request is queued instead of sent alone.
///
/// The tasks of that batch have just got their replies and are about to send again. The next request leaves with those
/// of them that are ready to run. A smaller batch ends that.
const LARGE_BATCH: usize = 4;
/// How many batches may be in flight: while the server runs one, this client handles the replies of the other.
const SENDERS_MAX: usize = 2;
/// The most requests of one batch. More would save little, and requests of other clients would wait behind them.
const BATCH_MAX: usize = 64;
/// How many requests with other terms a batch may pass over to find more with its own. Without that, a client that
/// locks in two ways at once would send batches of one.
const PASSED_OVER_MAX: usize = 256;
/// A sender that has not returned this long after its call timed out is stuck: no thread drives its runtime any more.
const STUCK_AFTER: Duration = Duration::from_secs(1);

struct QueueItem<R> {
    item: Item,
    asked: BatchRequest<R>,
}

/// Where the reply to a request goes, and when the request times out.
pub(super) struct BatchRequest<R> {
    pub(super) until: Moment,
    pub(super) reply: BatchReply<R>,
}

/// The requests of one batch in flight. The queue keeps them until the call ends, because some may time out before.
pub(super) type Sent<R> = Arc<[BatchRequest<R>]>;

/// A request that has timed out.
pub(super) enum Late<R> {
    /// It was certainly not sent.
    InQueue(BatchReply<R>),
    /// These were sent; those of them whose timeout has passed get no reply in time.
    OnTheWay(Sent<R>),
}

/// The right to send batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchSlot {
    index: usize,
    /// Differs from the number of a stuck sender that has lost the slot.
    holder: u64,
}

struct Sending<R> {
    holder: u64,
    /// The sender counts as stuck after this.
    until: Moment,
    /// True if the sender is about to take its next batch.
    is_gathering: bool,
    sent: Option<Sent<R>>,
}

pub(super) struct BatchQueue<R> {
    entries: VecDeque<QueueItem<R>>,
    /// How many requests have been queued so far.
    count: u64,
    solo: usize,
    sending: [Option<Sending<R>>; SENDERS_MAX],
    batch_max: usize,
    /// True if the latest batch had at least [`LARGE_BATCH`] requests.
    last_was_large: bool,
    /// No request times out before this moment.
    swept_until: Moment,
}

/// What the caller must do after its request was queued.
pub(super) struct Enqueued {
    /// The slot for a sender that the caller must start.
    pub(super) slot: Option<BatchSlot>,
    /// True if the request times out before the next sweep.
    pub(super) wake_watch: bool,
}

impl<R> BatchQueue<R> {
    /// Creates the queue for a store that takes this many names in one call.
    pub(super) fn new(names_per_call: usize) -> Self {
        BatchQueue {
            entries: VecDeque::new(),
            count: 0,
            solo: 0,
            sending: [const { None }; SENDERS_MAX],
            batch_max: names_per_call.min(BATCH_MAX).min(MANY_MAX),
            last_was_large: false,
            swept_until: Moment::from_nanos(u64::MAX),
        }
    }

    /// Returns true if the caller may send its request alone; the caller then reports when the request has returned.
    pub(super) fn take_solo(&mut self) -> bool {
        let may = self.is_solo_free();
        self.solo += usize::from(may);
        may
    }

    /// Returns true if a request that came now would be sent alone.
    pub(super) fn is_solo_free(&self) -> bool {
        let lone = self.solo < SOLO_MAX
            && !self.last_was_large
            && self.entries.is_empty()
            && self.sending.iter().all(Option::is_none);
        lone || self.batch_max < 2
    }

    pub(super) fn return_solo(&mut self) {
        self.solo = self.solo.saturating_sub(1);
    }

    /// Ends batching: the store does not take several names in one call after all.
    pub(super) fn disable(&mut self) {
        self.batch_max = 1;
    }

    pub(super) fn enqueue(
        &mut self,
        item: Item,
        until: Moment,
        now: Moment,
        reply: BatchReply<R>,
    ) -> Enqueued {
        self.count += 1;
        let asked = BatchRequest { until, reply };
        self.entries.push_back(QueueItem { item, asked });
        let wake_watch = until < self.swept_until;
        self.swept_until = self.swept_until.min(until);
        let slot = self.new_sender(until, now);
        Enqueued { slot, wake_watch }
    }

    /// Returns a slot for a new sender, when one is free and no other sender is about to take a batch.
    fn new_sender(&mut self, until: Moment, now: Moment) -> Option<BatchSlot> {
        let stuck = |sending: &Sending<R>| now >= sending.until;
        let is_gathering = |sending: &Sending<R>| sending.is_gathering && !stuck(sending);
        if self.sending.iter().flatten().any(is_gathering) {
            return None;
        }
        let free = |sending: &Option<Sending<R>>| sending.as_ref().is_none_or(stuck);
        let index = self.sending.iter().position(free)?;
        let holder = self.count;
        self.sending[index] = Some(Sending {
            holder,
            until: until.plus(STUCK_AFTER),
            is_gathering: true,
            sent: None,
        });
        Some(BatchSlot { index, holder })
    }

    /// Takes the requests of the next batch. An empty batch frees the slot, or says that the slot is another sender's
    /// by now.
    pub(super) fn take(&mut self, slot: &BatchSlot, now: Moment) -> (Vec<Item>, Sent<R>) {
        let (mut items, mut sent): (Vec<Item>, Vec<BatchRequest<R>>) = (Vec::new(), Vec::new());
        if !self.holds(slot) {
            return (items, sent.into());
        }
        let mut passed_over = Vec::new();
        while items.len() < self.batch_max && passed_over.len() < PASSED_OVER_MAX {
            let Some(entry) = self.entries.pop_front() else {
                break;
            };
            if !entry.asked.reply.is_awaited() {
                continue; // its caller was dropped
            }
            if now >= entry.asked.until {
                let message = "no reply to earlier requests in time";
                let late = StoreError::refused(ErrorKind::NoReply, message);
                entry.asked.reply.set(BatchOutcome::Answer(Err(late)));
                continue;
            }
            if items
                .first()
                .is_some_and(|first| !first.goes_with(&entry.item))
            {
                passed_over.push(entry);
                continue;
            }
            items.push(entry.item);
            sent.push(entry.asked);
        }
        for entry in passed_over.into_iter().rev() {
            self.entries.push_front(entry);
        }
        let sent: Sent<R> = sent.into();
        if !items.is_empty() {
            self.last_was_large = items.len() >= LARGE_BATCH;
        }
        let until = sent.iter().map(|asked| asked.until).max();
        self.sending[slot.index] = until.map(|until| Sending {
            holder: slot.holder,
            until: until.plus(STUCK_AFTER),
            is_gathering: false,
            sent: Some(Arc::clone(&sent)),
        });
        (items, sent)
    }

    /// Returns the requests that have timed out, and the moment of the next timeout.
    ///
    /// The watch calls it at that moment, and when a request is queued that times out earlier.
    pub(super) fn sweep(&mut self, now: Moment) -> (Vec<Late<R>>, Option<Moment>) {
        let (mut late, mut next) = (Vec::new(), Moment::from_nanos(u64::MAX));
        for entry in std::mem::take(&mut self.entries) {
            if now >= entry.asked.until {
                late.push(Late::InQueue(entry.asked.reply));
            } else {
                next = next.min(entry.asked.until);
                self.entries.push_back(entry);
            }
        }
        for sent in self
            .sending
            .iter()
            .flatten()
            .filter_map(|s| s.sent.as_ref())
        {
            let (over, left): (Vec<_>, Vec<_>) = sent
                .iter()
                .map(|asked| asked.until)
                .partition(|until| now >= *until);
            if !over.is_empty() {
                late.push(Late::OnTheWay(Arc::clone(sent)));
            }
            next = left.into_iter().fold(next, Moment::min);
        }
        self.swept_until = next;
        (late, (next != Moment::from_nanos(u64::MAX)).then_some(next))
    }

    /// Marks the sender as about to take its next batch: requests that come meanwhile need no other sender.
    pub(super) fn start_gathering(&mut self, slot: &BatchSlot) {
        if self.holds(slot)
            && let Some(sending) = &mut self.sending[slot.index]
        {
            sending.is_gathering = true;
        }
    }

    pub(super) fn free_slot(&mut self, slot: &BatchSlot) {
        if self.holds(slot) {
            self.sending[slot.index] = None;
        }
    }

    fn holds(&self, slot: &BatchSlot) -> bool {
        let sending = self.sending[slot.index].as_ref();
        sending.is_some_and(|sending| sending.holder == slot.holder)
    }
}

// The reply to one request in a batch: the caller's end and the sender's end.
//
// It has no timer. One task watches the timeouts of all requests (see `sweep` in the queue), because a timer of its
// own would cost a request more than its share of the call.

/// What a request in a batch comes to.
#[derive(Debug)]
pub(crate) enum BatchOutcome<R> {
    Answer(Result<R, StoreError>),
    /// The call was refused as a whole and had no effect: the caller sends the request alone.
    Alone,
    /// The request had no effect, because a batch serves plain cases only. The lock is noted as contended.
    NotPlain,
}

/// The sender's end: it sets the reply.
pub(super) struct BatchReply<R>(Mutex<Option<oneshot::Sender<BatchOutcome<R>>>>);

/// The caller's end: a future of the reply. Dropping it says that no caller waits for the reply.
#[must_use = "a request that no caller waits for is not sent"]
pub(crate) struct PendingReply<R>(oneshot::Receiver<BatchOutcome<R>>);

pub(super) fn pair<R>() -> (BatchReply<R>, PendingReply<R>) {
    let (sender, receiver) = oneshot::channel();
    (BatchReply(Mutex::new(Some(sender))), PendingReply(receiver))
}

impl<R> BatchReply<R> {
    /// Sets the reply. The first one counts; without a waiting caller nothing happens.
    pub(super) fn set(&self, outcome: BatchOutcome<R>) {
        let sender = hold(&self.0).take();
        if let Some(sender) = sender {
            drop(sender.send(outcome));
        }
    }

    pub(super) fn is_awaited(&self) -> bool {
        let sender = hold(&self.0);
        sender.as_ref().is_some_and(|sender| !sender.is_closed())
    }
}

impl<R> Future for PendingReply<R> {
    type Output = BatchOutcome<R>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<BatchOutcome<R>> {
        if self.0.is_terminated() {
            return Poll::Pending; // the caller has had its reply
        }
        match Pin::new(&mut self.0).poll(cx) {
            Poll::Ready(Ok(outcome)) => Poll::Ready(outcome),
            Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending, // the queue and its senders set every reply
        }
    }
}

#[cfg(test)]
mod tests;
