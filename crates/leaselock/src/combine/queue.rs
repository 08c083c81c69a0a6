//! Who goes straight, who waits, and who sends: plain state, with the time as an argument.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Told;
use crate::clock::Moment;
use crate::error::{ErrorKind, StoreError};
use crate::mutex::many::{Item, MANY_MAX};

/// So many requests of a kind may be on their way by themselves; with more, company is worth waiting for.
const STRAIGHT_MAX: usize = 1;
/// So many calls may be on their way: while the server works on one, the answers of another are handed out here.
const DRIVERS_MAX: usize = 2;
/// So many requests leave in one call. More save little, and what others send waits behind them.
const BATCH_MAX: usize = 64;
/// Whoever has not come back so long after the time of its call was over sits on a runtime that nobody drives any more.
const STUCK_AFTER: Duration = Duration::from_secs(1);

/// A request in the queue.
#[derive(Debug)]
pub(super) struct Entry<R> {
    ticket: u64,
    pub(super) item: Item,
    pub(super) until: Moment,
    reply: oneshot::Sender<Told<R>>,
}

impl<R> Entry<R> {
    pub(super) fn tell(self, told: Told<R>) {
        drop(self.reply.send(told)); // an error when nobody waits for it any more
    }

    pub(super) fn split(self) -> (Item, oneshot::Sender<Told<R>>) {
        (self.item, self.reply)
    }
}

/// The right to send batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    place: usize,
    /// Whoever was stuck and lost the place has another one.
    holder: u64,
}

#[derive(Debug, Clone, Copy)]
struct Sending {
    holder: u64,
    /// It is stuck after this.
    until: Moment,
    /// It has not taken its first batch yet.
    gathers: bool,
}

#[derive(Debug)]
pub(super) struct Queue<R> {
    entries: VecDeque<Entry<R>>,
    next: u64,
    straight: usize,
    sending: [Option<Sending>; DRIVERS_MAX],
    batch_max: usize,
}

impl<R> Queue<R> {
    /// For a store that takes this many names in one call.
    pub(super) fn new(names_per_call: usize) -> Self {
        Queue {
            entries: VecDeque::new(),
            next: 0,
            straight: 0,
            sending: [None; DRIVERS_MAX],
            batch_max: names_per_call.min(BATCH_MAX).min(MANY_MAX),
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

    /// Puts a request at the end, and says whether somebody has to be started who sends it.
    pub(super) fn enqueue(
        &mut self,
        item: Item,
        until: Moment,
        now: Moment,
        reply: oneshot::Sender<Told<R>>,
    ) -> (u64, Option<Slot>) {
        self.next += 1;
        let ticket = self.next;
        self.entries.push_back(Entry {
            ticket,
            item,
            until,
            reply,
        });
        let stuck = |sending: &Sending| now >= sending.until;
        let gathering = self
            .sending
            .iter()
            .flatten()
            .any(|sending| sending.gathers && !stuck(sending));
        if gathering {
            return (ticket, None);
        }
        let free = self
            .sending
            .iter()
            .position(|sending| sending.as_ref().is_none_or(stuck));
        let slot = free.map(|place| Slot {
            place,
            holder: ticket,
        });
        if let Some(slot) = slot {
            self.sending[slot.place] = Some(Sending {
                holder: slot.holder,
                until: until.plus(STUCK_AFTER),
                gathers: true,
            });
        }
        (ticket, slot)
    }

    /// Takes a request out that was not sent yet. False when it was.
    pub(super) fn withdraw(&mut self, ticket: u64) -> bool {
        let place = self
            .entries
            .binary_search_by_key(&ticket, |entry| entry.ticket);
        match place {
            Ok(place) => self.entries.remove(place).is_some(),
            Err(_) => false,
        }
    }

    /// The requests for the next call; none, and the slot is free, when nobody waits or it is another's by now.
    pub(super) fn take(&mut self, slot: &Slot, now: Moment) -> Vec<Entry<R>> {
        let mut batch = Vec::new();
        if !self.holds(slot) {
            return batch;
        }
        while batch.len() < self.batch_max {
            let Some(entry) = self.entries.pop_front() else {
                break;
            };
            if entry.reply.is_closed() {
                continue; // its caller has gone
            }
            if now >= entry.until {
                let message = "no answer to earlier requests in time";
                let late = StoreError::refused(ErrorKind::TimedOut, message);
                entry.tell(Told::Answer(Err(late)));
                continue;
            }
            let fits = |first: &Entry<R>| first.item.terms == entry.item.terms;
            if !batch.first().is_none_or(fits) {
                self.entries.push_front(entry);
                break;
            }
            batch.push(entry);
        }
        let until = batch.iter().map(|entry| entry.until).max();
        self.sending[slot.place] = until.map(|until| Sending {
            holder: slot.holder,
            until: until.plus(STUCK_AFTER),
            gathers: false,
        });
        batch
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
        self.sending[slot.place].is_some_and(|sending| sending.holder == slot.holder)
    }
}

#[cfg(test)]
mod tests;
