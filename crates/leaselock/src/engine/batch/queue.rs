//! Who goes straight, who waits, and who sends: plain state, with the time as an argument.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::reply::{BatchOutcome, Reply};
use crate::base::clock::Moment;
use crate::base::error::{ErrorKind, StoreError};
use crate::engine::calls_many::{Item, MANY_MAX};

/// So many requests of a kind may be on their way by themselves; with more, company is worth waiting for.
const STRAIGHT_MAX: usize = 1;
/// After a call of so many, the next request is not a lone one: the others have been answered just now and are about to
/// ask again, and it leaves with those of them who are ready to run. A call of fewer ends that.
const CROWD: usize = 4;
/// So many calls may be on their way: while the server works on one, the answers of another are handed out here.
const DRIVERS_MAX: usize = 2;
/// So many requests leave in one call. More save little, and what others send waits behind them.
const BATCH_MAX: usize = 64;
/// Whoever has not come back so long after the time of its call was over sits on a runtime that nobody drives any more.
const STUCK_AFTER: Duration = Duration::from_secs(1);

/// A request in the queue.
struct Entry<R> {
    item: Item,
    asked: Asked<R>,
}

/// Who waits for an answer, and until when.
pub(super) struct Asked<R> {
    pub(super) until: Moment,
    pub(super) reply: Reply<R>,
}

/// What leaves together. The queue keeps it in view until it is over, because some of it may be late before.
pub(super) type Sent<R> = Arc<[Asked<R>]>;

/// A request whose time is over.
pub(super) enum Late<R> {
    /// It was surely not sent.
    InQueue(Reply<R>),
    /// These were sent, and those of them who are still waiting after this moment wait in vain.
    OnTheWay(Sent<R>),
}

/// The right to send batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    place: usize,
    /// Whoever was stuck and lost the place has another one.
    holder: u64,
}

struct Sending<R> {
    holder: u64,
    /// It is stuck after this.
    until: Moment,
    /// It is about to take its next batch.
    gathers: bool,
    sent: Option<Sent<R>>,
}

pub(super) struct Queue<R> {
    entries: VecDeque<Entry<R>>,
    /// How many requests there were.
    count: u64,
    straight: usize,
    sending: [Option<Sending<R>>; DRIVERS_MAX],
    batch_max: usize,
    /// The latest call had many requests.
    crowded: bool,
    /// Nobody is late before this moment.
    swept_until: Moment,
}

/// What became of a request that was put into the queue.
pub(super) struct Enqueued {
    /// Somebody is to be started who sends it.
    pub(super) slot: Option<Slot>,
    /// The next sweep comes too late for it.
    pub(super) hurry: bool,
}

impl<R> Queue<R> {
    /// For a store that takes this many names in one call.
    pub(super) fn new(names_per_call: usize) -> Self {
        Queue {
            entries: VecDeque::new(),
            count: 0,
            straight: 0,
            sending: [const { None }; DRIVERS_MAX],
            batch_max: names_per_call.min(BATCH_MAX).min(MANY_MAX),
            crowded: false,
            swept_until: Moment::from_nanos(u64::MAX),
        }
    }

    /// True for whoever may go straight; it reports when it is back.
    pub(super) fn go_straight(&mut self) -> bool {
        let may = self.is_straight_free();
        self.straight += usize::from(may);
        may
    }

    /// Whoever came now would go straight.
    pub(super) fn is_straight_free(&self) -> bool {
        let lone = self.straight < STRAIGHT_MAX
            && !self.crowded
            && self.entries.is_empty()
            && self.sending.iter().all(Option::is_none);
        lone || self.batch_max < 2
    }

    pub(super) fn straight_is_back(&mut self) {
        self.straight = self.straight.saturating_sub(1);
    }

    /// The store does not take several names in one call after all.
    pub(super) fn never_again(&mut self) {
        self.batch_max = 1;
    }

    /// Puts a request at the end.
    pub(super) fn enqueue(
        &mut self,
        item: Item,
        until: Moment,
        now: Moment,
        reply: Reply<R>,
    ) -> Enqueued {
        self.count += 1;
        let asked = Asked { until, reply };
        self.entries.push_back(Entry { item, asked });
        let hurry = until < self.swept_until;
        self.swept_until = self.swept_until.min(until);
        let slot = self.needed(until, now);
        Enqueued { slot, hurry }
    }

    /// The right to send, when it is free and nobody gathers.
    fn needed(&mut self, until: Moment, now: Moment) -> Option<Slot> {
        let stuck = |sending: &Sending<R>| now >= sending.until;
        let gathers = |sending: &Sending<R>| sending.gathers && !stuck(sending);
        if self.sending.iter().flatten().any(gathers) {
            return None;
        }
        let free = |sending: &Option<Sending<R>>| sending.as_ref().is_none_or(stuck);
        let place = self.sending.iter().position(free)?;
        let holder = self.count;
        self.sending[place] = Some(Sending {
            holder,
            until: until.plus(STUCK_AFTER),
            gathers: true,
            sent: None,
        });
        Some(Slot { place, holder })
    }

    /// The requests for the next call; none, and the slot is free, when nobody waits or it is another's by now.
    pub(super) fn take(&mut self, slot: &Slot, now: Moment) -> (Vec<Item>, Sent<R>) {
        let (mut items, mut sent): (Vec<Item>, Vec<Asked<R>>) = (Vec::new(), Vec::new());
        if !self.holds(slot) {
            return (items, sent.into());
        }
        while items.len() < self.batch_max {
            let Some(entry) = self.entries.pop_front() else {
                break;
            };
            if !entry.asked.reply.is_awaited() {
                continue; // its caller has gone
            }
            if now >= entry.asked.until {
                let message = "no answer to earlier requests in time";
                let late = StoreError::refused(ErrorKind::TimedOut, message);
                entry.asked.reply.tell(BatchOutcome::Answer(Err(late)));
                continue;
            }
            if items
                .first()
                .is_some_and(|first| first.terms != entry.item.terms)
            {
                self.entries.push_front(entry);
                break;
            }
            items.push(entry.item);
            sent.push(entry.asked);
        }
        let sent: Sent<R> = sent.into();
        if !items.is_empty() {
            self.crowded = items.len() >= CROWD;
        }
        let until = sent.iter().map(|asked| asked.until).max();
        self.sending[slot.place] = until.map(|until| Sending {
            holder: slot.holder,
            until: until.plus(STUCK_AFTER),
            gathers: false,
            sent: Some(Arc::clone(&sent)),
        });
        (items, sent)
    }

    /// Whoever is late by now, and when the next one will be. To be called at that moment, or when somebody is put into
    /// the queue who will be late sooner.
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

    /// It is about to take its next batch: whoever comes meanwhile needs nobody else.
    pub(super) fn gather(&mut self, slot: &Slot) {
        if self.holds(slot)
            && let Some(sending) = &mut self.sending[slot.place]
        {
            sending.gathers = true;
        }
    }

    pub(super) fn give_back(&mut self, slot: &Slot) {
        if self.holds(slot) {
            self.sending[slot.place] = None;
        }
    }

    fn holds(&self, slot: &Slot) -> bool {
        let sending = self.sending[slot.place].as_ref();
        sending.is_some_and(|sending| sending.holder == slot.holder)
    }
}

#[cfg(test)]
mod tests;
