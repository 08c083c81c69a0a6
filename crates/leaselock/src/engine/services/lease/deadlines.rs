//! When each lease needs attention next.
//!
//! Most leases are released long before their alarm. They are removed at once and completely, so the memory depends on
//! the leases that are held, not on those that were.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::record::LeaseRecord;
use crate::base::Moment;

/// Identifies one lease in the schedule, until that lease is removed. Grows with every lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(u64);

#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    /// Each lease with its alarm.
    leases: BTreeMap<Id, (Arc<LeaseRecord>, Moment)>,
    /// The same alarms, the earliest first.
    alarms: BTreeSet<(Moment, Id)>,
    latest: u64,
}

impl Deadlines {
    pub(crate) fn insert(&mut self, record: Arc<LeaseRecord>, alarm: Moment) -> Id {
        self.latest += 1;
        let id = Id(self.latest);
        self.leases.insert(id, (record, alarm));
        self.alarms.insert((alarm, id));
        id
    }

    pub(crate) fn remove(&mut self, id: Id) {
        if let Some((_, alarm)) = self.leases.remove(&id) {
            self.alarms.remove(&(alarm, id));
        }
    }

    /// Replaces the record of a lease, and returns its alarm, which stays. `None` for a lease that was removed.
    pub(crate) fn replace(&mut self, id: Id, record: &Arc<LeaseRecord>) -> Option<Moment> {
        let (known, alarm) = self.leases.get_mut(&id)?;
        *known = Arc::clone(record);
        Some(*alarm)
    }

    pub(crate) fn get(&self, id: Id) -> Option<Arc<LeaseRecord>> {
        let (record, _) = self.leases.get(&id)?;
        Some(Arc::clone(record))
    }

    /// Moves an alarm. False for a lease that was removed.
    pub(crate) fn set_alarm(&mut self, id: Id, alarm: Moment) -> bool {
        let Some((_, known)) = self.leases.get_mut(&id) else {
            return false;
        };
        let before = std::mem::replace(known, alarm);
        if before != alarm {
            self.alarms.remove(&(before, id));
            self.alarms.insert((alarm, id));
        }
        true
    }

    /// Returns the earliest alarm.
    pub(crate) fn first(&self) -> Option<Moment> {
        self.alarms.first().map(|(alarm, _)| *alarm)
    }

    /// Returns all leases with an alarm at `until` or earlier. Their alarms stay.
    pub(crate) fn due_until(&self, until: Moment) -> Vec<(Id, Arc<LeaseRecord>)> {
        let due = self.alarms.range(..=(until, Id(u64::MAX)));
        due.filter_map(|(_, id)| Some((*id, self.get(*id)?)))
            .collect()
    }

    /// Returns all leases, oldest first.
    pub(crate) fn all(&self) -> Vec<(Id, Arc<LeaseRecord>)> {
        let all = self.leases.iter();
        all.map(|(id, (record, _))| (*id, Arc::clone(record)))
            .collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }
}

#[cfg(test)]
mod tests;
