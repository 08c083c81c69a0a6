//! The one task that renews all leases of a client, and reports lost ones.
//!
//! It runs on the client's own thread over a connection of its own. So a busy executor, or a full connection of the
//! user, delays neither a renewal nor the report of a loss.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::cleanup::{Cleanup, PendingCleanup};
use super::lease::deadlines::{Deadlines, Id};
use super::lease::record::LeaseRecord;
use super::lease::state::{EARLY_MAX, NextStep};
use super::log::EventLog;
use crate::base::clock::Alarm;
use crate::base::clock_watch::ClockWatch;
use crate::base::error::LostReason;
use crate::base::{Clock, Moment, StoreError, Ttl, hold};
use crate::engine::values::LogEvent;
use crate::quorum::executor::Executor;
use crate::store::LeaseHolder;

/// How long the task sleeps without a lease; a new lease wakes it.
const IDLE: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(crate) struct Renewal {
    table: Mutex<LeaseTable>,
    changed: Notify,
    store: Executor,
    clock: Clock,
    request_timeout: Option<Duration>,
    cleanup: Cleanup,
    clock_watch: Arc<ClockWatch>,
    /// Weak, because it has the store of the requests, whose messages lead here.
    log: Weak<EventLog>,
}

#[derive(Debug)]
struct LeaseTable {
    schedule: Deadlines,
    /// The nodes without a vote for a lease, as bits. Mostly there is none, and an empty tree computes no hash.
    missing_votes: BTreeMap<Id, u32>,
    /// Until when the task sleeps. A later alarm need not wake it.
    sleeps_until: Moment,
}

impl LeaseTable {
    fn remove(&mut self, id: Id) {
        self.schedule.remove(id);
        self.missing_votes.remove(&id);
    }
}

type DueLease = (Id, Arc<LeaseRecord>);

impl Renewal {
    pub(crate) fn new(
        store: Executor,
        clock: Clock,
        request_timeout: Option<Duration>,
        cleanup: Cleanup,
        clock_watch: Arc<ClockWatch>,
        log: Weak<EventLog>,
    ) -> Self {
        let table = LeaseTable {
            schedule: Deadlines::default(),
            missing_votes: BTreeMap::new(),
            sleeps_until: Moment::from_nanos(u64::MAX),
        };
        Renewal {
            table: Mutex::new(table),
            changed: Notify::new(),
            store,
            clock,
            request_timeout,
            cleanup,
            clock_watch,
            log,
        }
    }

    fn table(&self) -> MutexGuard<'_, LeaseTable> {
        hold(&self.table)
    }

    /// Renews a lease from now on. The id is for its removal.
    pub(crate) fn add(&self, record: Arc<LeaseRecord>) -> Id {
        let alarm = record.core().next();
        self.change(|table| (table.schedule.insert(record, alarm), Some(alarm)))
    }

    /// Changes the schedule, and wakes the task if it would sleep past the alarm that the change set.
    fn change<T>(&self, change: impl FnOnce(&mut LeaseTable) -> (T, Option<Moment>)) -> T {
        let (changed, early) = {
            let mut table = self.table();
            let (changed, alarm) = change(&mut table);
            (
                changed,
                alarm.is_some_and(|alarm| alarm < table.sleeps_until),
            )
        };
        if early {
            self.changed.notify_one();
        }
        changed
    }

    /// Stops renewing a lease. The reply to a renewal in flight changes nothing any more.
    pub(crate) fn remove(&self, id: Id) {
        self.table().remove(id);
    }

    /// Replaces the record of a lease by that of the next task. The new id is for its removal.
    pub(crate) fn pass_on(&self, id: Id, to: Arc<LeaseRecord>) -> Id {
        self.change(|table| {
            if let Some(before) = table.schedule.get(id) {
                to.core().doubt_as(&before.core());
            }
            let alarm = to.core().next();
            match table.schedule.replace(id, &to) {
                // An alarm that is too early sets itself anew, so a local hand-over wakes no task.
                Some(known) if known <= alarm => (id, None),
                Some(_) => {
                    table.schedule.set_alarm(id, alarm);
                    (id, Some(alarm))
                }
                None => (table.schedule.insert(to, alarm), Some(alarm)),
            }
        })
    }

    /// Returns the present record of a lease: it may have been handed over locally while a request was in flight.
    fn current(&self, id: Id, asked_for: &Arc<LeaseRecord>) -> Arc<LeaseRecord> {
        let present = self.table().schedule.get(id);
        present.unwrap_or_else(|| Arc::clone(asked_for))
    }

    /// Removes a lease that is over, unless it was handed over locally: the alarm then belongs to the next record.
    fn remove_record(&self, id: Id, record: &Arc<LeaseRecord>) {
        let mut table = self.table();
        match table.schedule.get(id) {
            Some(present) if !Arc::ptr_eq(&present, record) => {
                let alarm = present.core().next();
                table.schedule.set_alarm(id, alarm);
            }
            _ => table.remove(id),
        }
    }

    /// Checks a lease at once, because its deadline moved.
    pub(crate) fn check_now(&self, id: Id) {
        let at_once = Moment::from_nanos(0);
        self.change(|table| (table.schedule.set_alarm(id, at_once), Some(at_once)));
    }

    /// Sets the alarms by what their leases are now: each may have been handed over or taken since it was read.
    fn set_alarms(&self, ids: impl IntoIterator<Item = Id>) {
        let now = self.clock.now();
        self.change(|table| {
            for id in ids {
                if let Some(record) = table.schedule.get(id) {
                    let alarm = record.core().alarm(now); // within the lock: what changes it sets the alarm after this
                    table.schedule.set_alarm(id, alarm);
                }
            }
            ((), table.schedule.first())
        });
    }

    /// Returns all leases that are held, oldest first.
    pub(crate) fn held(&self) -> Vec<Arc<LeaseRecord>> {
        let all = self.table().schedule.all();
        all.into_iter().map(|(_, record)| record).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table().schedule.is_empty()
    }

    /// Runs until the client's thread ends.
    pub(crate) async fn run(self: Arc<Self>) {
        let alarm = Alarm::new(self.clock.clone());
        loop {
            let next = self.work();
            tokio::select! {
                () = alarm.ring_at(next) => {}
                () = self.changed.notified() => {}
            }
        }
    }

    /// Does all that is due, and returns the next alarm.
    fn work(self: &Arc<Self>) -> Moment {
        loop {
            let now = self.clock.now();
            let due = {
                let mut table = self.table();
                let first = table.schedule.first().unwrap_or_else(|| now.plus(IDLE));
                if first > now {
                    table.sleeps_until = first;
                    return first;
                }
                table.schedule.due_until(now)
            };
            let mut renewals: Vec<DueLease> = due
                .into_iter()
                .filter(|(id, record)| self.step(*id, record, now))
                .collect();
            if !renewals.is_empty() {
                renewals.extend(self.soon_due(now));
                self.send(renewals);
            }
        }
    }

    /// Returns true for a lease to renew now. Its alarm is its deadline until the reply comes.
    fn step(&self, id: Id, record: &Arc<LeaseRecord>, now: Moment) -> bool {
        match record.step(now) {
            NextStep::Until(_) => self.set_alarms([id]),
            NextStep::Renew => {
                self.set_alarms([id]);
                return true;
            }
            NextStep::Lost(_) | NextStep::Over => {
                self.release_after_hold(record);
                self.remove_record(id, record);
            }
        }
        false
    }

    /// Returns the leases that are due soon, to renew them together with those that are due.
    fn soon_due(&self, now: Moment) -> Vec<DueLease> {
        let mut soon = self.table().schedule.due_until(now.plus(EARLY_MAX));
        soon.retain(|(_, record)| record.core().renew_early(now));
        self.set_alarms(soon.iter().map(|(id, _)| *id));
        soon
    }

    /// Releases a lease at the end of its longest hold, because the store still has its key.
    fn release_after_hold(&self, record: &LeaseRecord) {
        let reason = record.core().lost();
        if reason == Some(LostReason::MaxHoldReached) {
            let pending = PendingCleanup::release(record.held.clone(), self.clock.now());
            self.cleanup
                .take(pending.with_custom(record.custom.clone()));
        }
    }

    fn note_time(&self, t0: Moment, time_us: Option<u64>) {
        let now = self.clock.now();
        let jumped = |time_us: &u64| self.clock_watch.note(t0, now, *time_us);
        if let Some(time_us) = time_us.filter(jumped) {
            if let Some(log) = self.log.upgrade() {
                log.clock_jumped(&self.clock_watch, time_us);
            }
            self.verify_all();
        }
    }
}

impl LeaseHolder for Renewal {
    fn holds(&self) -> bool {
        !self.is_empty()
    }

    /// Verifies by a renewal.
    fn verify_all(&self) {
        let now = self.clock.now();
        self.change(|table| {
            for (id, record) in table.schedule.all() {
                record.core().verify_soon(now); // within the lock: a record that is passed on has its doubt
                table.schedule.set_alarm(id, now);
            }
            ((), Some(now))
        });
    }

    fn connection(&self, server: &str, error: Option<&StoreError>) {
        let event = || match error {
            Some(error) => LogEvent::new("disconnected", format!("{server}: {error}")),
            None => LogEvent::new("connected", server),
        };
        self.log.upgrade().inspect(|log| log.tell(event));
    }
}

/// Returns the timeout of one request: a second, or a quarter of the ttl when that is less.
///
/// So two renewals can fail, and a third still runs before the deadline.
pub(crate) fn request_timeout(asked: Option<Duration>, ttl: Ttl) -> Duration {
    asked.unwrap_or_else(|| Duration::from_secs(1).min(ttl.as_duration() / 4))
}

mod revote;
mod send;
#[cfg(test)]
#[cfg(feature = "embedded")]
mod tests;
