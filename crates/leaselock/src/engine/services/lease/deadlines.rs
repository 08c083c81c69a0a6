//! When each lease needs attention next: a heap of alarms in which each lease knows its rank.
//!
//! Most leases are released long before their alarm. They are removed at once and completely, so the memory depends on
//! the leases that are held, not on those that were. Entries are small, because there may be a hundred thousand.

use std::sync::Arc;

use super::record::LeaseRecord;
use crate::base::Moment;

/// An empty schedule keeps memory for at most this many leases.
const ROOM_KEPT: usize = 1024;

/// Identifies one lease in the schedule, until that lease is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id {
    place: u32,
    /// Grows with every lease, so an index that is used again has another number.
    number: u64,
}

#[derive(Debug)]
struct DeadlineEntry {
    record: Option<Arc<LeaseRecord>>,
    alarm: Moment,
    number: u64,
    /// The lease's index in the heap.
    rank: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    entries: Vec<DeadlineEntry>,
    free: Vec<u32>,
    /// Indices into `entries`; no alarm is earlier than the one at (rank - 1) / 2.
    heap: Vec<u32>,
    next_number: u64,
}

impl Deadlines {
    pub(crate) fn insert(&mut self, record: Arc<LeaseRecord>, alarm: Moment) -> Id {
        self.next_number += 1;
        let entry = DeadlineEntry {
            record: Some(record),
            alarm,
            number: self.next_number,
            rank: index(self.heap.len()),
        };
        let place = match self.free.pop() {
            Some(place) => {
                self.entries[place as usize] = entry;
                place
            }
            None => {
                self.entries.push(entry);
                index(self.entries.len() - 1)
            }
        };
        self.heap.push(place);
        self.rise(self.heap.len() - 1);
        Id {
            place,
            number: self.next_number,
        }
    }

    pub(crate) fn remove(&mut self, id: Id) {
        let Some(rank) = self.rank(id) else { return };
        self.entries[id.place as usize].record = None;
        let last = self.heap.len() - 1;
        self.swap(rank, last);
        self.heap.pop();
        self.free.push(id.place);
        if rank < last {
            self.settle(rank);
        }
        if self.heap.is_empty() && self.entries.capacity() > ROOM_KEPT {
            let next_number = self.next_number;
            *self = Deadlines {
                next_number,
                ..Deadlines::default()
            };
        }
    }

    /// Replaces the record of a lease, and returns its alarm, which stays. `None` for a lease that was removed.
    pub(crate) fn replace(&mut self, id: Id, record: &Arc<LeaseRecord>) -> Option<Moment> {
        self.rank(id)?;
        let entry = &mut self.entries[id.place as usize];
        entry.record = Some(Arc::clone(record));
        Some(entry.alarm)
    }

    pub(crate) fn get(&self, id: Id) -> Option<Arc<LeaseRecord>> {
        self.rank(id)?;
        self.entries[id.place as usize].record.clone()
    }

    /// Moves an alarm. False for a lease that was removed.
    pub(crate) fn set_alarm(&mut self, id: Id, alarm: Moment) -> bool {
        let Some(rank) = self.rank(id) else {
            return false;
        };
        self.entries[id.place as usize].alarm = alarm;
        self.settle(rank);
        true
    }

    /// Returns the earliest alarm.
    pub(crate) fn first(&self) -> Option<Moment> {
        self.heap
            .first()
            .map(|place| self.entries[*place as usize].alarm)
    }

    /// Returns all leases with an alarm at `until` or earlier, in no order. Their alarms stay.
    pub(crate) fn due_until(&self, until: Moment) -> Vec<(Id, Arc<LeaseRecord>)> {
        let mut found = Vec::new();
        let mut ranks = vec![0];
        while let Some(rank) = ranks.pop() {
            let Some(place) = self.heap.get(rank) else {
                continue;
            };
            let entry = &self.entries[*place as usize];
            if entry.alarm > until {
                continue; // and so do all below it
            }
            let id = Id {
                place: *place,
                number: entry.number,
            };
            found.extend(entry.record.as_ref().map(|record| (id, Arc::clone(record))));
            ranks.extend([2 * rank + 1, 2 * rank + 2]);
        }
        found
    }

    /// Returns all leases, oldest first.
    pub(crate) fn all(&self) -> Vec<(Id, Arc<LeaseRecord>)> {
        let mut all = self.due_until(Moment::from_nanos(u64::MAX));
        all.sort_unstable_by_key(|(id, _)| id.number);
        all
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    fn rank(&self, id: Id) -> Option<usize> {
        let entry = self.entries.get(id.place as usize)?;
        (entry.number == id.number && entry.record.is_some()).then_some(entry.rank as usize)
    }

    fn alarm(&self, rank: usize) -> Moment {
        self.entries[self.heap[rank] as usize].alarm
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for rank in [one, other] {
            self.entries[self.heap[rank] as usize].rank = index(rank);
        }
    }

    /// Moves an entry up or down to its rank.
    fn settle(&mut self, rank: usize) {
        self.rise(rank);
        self.sink(rank);
    }

    fn rise(&mut self, mut rank: usize) {
        while rank > 0 && self.alarm(rank) < self.alarm((rank - 1) / 2) {
            self.swap(rank, (rank - 1) / 2);
            rank = (rank - 1) / 2;
        }
    }

    fn sink(&mut self, mut rank: usize) {
        loop {
            let children = [2 * rank + 1, 2 * rank + 2];
            let here = children
                .into_iter()
                .filter(|child| *child < self.heap.len());
            let Some(first) = here.min_by_key(|child| self.alarm(*child)) else {
                return;
            };
            if self.alarm(rank) <= self.alarm(first) {
                return;
            }
            self.swap(rank, first);
            rank = first;
        }
    }
}

/// Four billion leases do not fit into memory.
fn index(at: usize) -> u32 {
    u32::try_from(at).expect("fewer leases than 2^32")
}

#[cfg(test)]
mod tests;
