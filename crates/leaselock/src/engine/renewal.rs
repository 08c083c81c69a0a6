//! The one task that keeps all leases of a client: renews what is due and says what is lost.
//!
//! It runs on the client's own thread over a connection of its own, so a busy executor or a full connection of the
//! user delays neither renewals nor the news of a loss.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use self::absent::Absent;
use super::cleanup::{Cleanup, PendingCleanup};
use super::lease::deadlines::{Deadlines, Id};
use super::lease::record::LeaseRecord;
use super::lease::state::{EARLY_MAX, Step};
use crate::base::clock::{Alarm, Clock, Moment};
use crate::base::clock_watch::ClockWatch;
use crate::base::error::LostReason;
use crate::base::ttl::Ttl;
use crate::quorum::executor::Executor;
use crate::store::Holder;

/// How long the task sleeps when it keeps nothing; it is woken by whatever comes.
const IDLE: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(crate) struct Renewal {
    table: Mutex<Table>,
    changed: Notify,
    store: Executor,
    clock: Clock,
    request_timeout: Option<Duration>,
    cleanup: Cleanup,
    skew: Arc<ClockWatch>,
}

#[derive(Debug)]
struct Table {
    schedule: Deadlines,
    absent: Absent,
    /// Until when the task sleeps. Whatever comes later need not wake it.
    sleeps_until: Moment,
}

impl Table {
    fn remove(&mut self, id: Id) {
        self.schedule.remove(id);
        self.absent.take(id);
    }
}

/// A lease and where it is in the schedule.
type Due = (Id, Arc<LeaseRecord>);

impl Renewal {
    pub(crate) fn new(
        store: Executor,
        clock: Clock,
        request_timeout: Option<Duration>,
        cleanup: Cleanup,
        skew: Arc<ClockWatch>,
    ) -> Self {
        let table = Table {
            schedule: Deadlines::default(),
            absent: Absent::default(),
            sleeps_until: Moment::from_nanos(u64::MAX),
        };
        Renewal {
            table: Mutex::new(table),
            changed: Notify::new(),
            store,
            clock,
            request_timeout,
            cleanup,
            skew,
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a lease from now on. The id takes it back.
    pub(crate) fn keep(&self, kept: Arc<LeaseRecord>) -> Id {
        let alarm = kept.core().next();
        let (id, early) = {
            let mut table = self.table();
            let early = alarm < table.sleeps_until;
            (table.schedule.insert(kept, alarm), early)
        };
        if early {
            self.changed.notify_one();
        }
        id
    }

    /// Stops renewing. A renewal that is on its way changes nothing any more.
    pub(crate) fn forget(&self, id: Id) {
        self.table().remove(id);
    }

    /// The lease is another task's from now on. The new id takes it back.
    pub(crate) fn pass_on(&self, id: Id, to: Arc<LeaseRecord>) -> Id {
        let alarm = to.core().next();
        let (id, early) = {
            let mut table = self.table();
            match table.schedule.replace(id, &to) {
                // An alarm that rings too early is set anew: so a turn wakes nobody.
                Some(known) if known <= alarm => (id, false),
                Some(_) => {
                    table.schedule.set_alarm(id, alarm);
                    (id, alarm < table.sleeps_until)
                }
                None => {
                    let early = alarm < table.sleeps_until;
                    (table.schedule.insert(to, alarm), early)
                }
            }
        };
        if early {
            self.changed.notify_one();
        }
        id
    }

    /// Whoever has the lease by now: it may have passed on while a request was on its way.
    fn present(&self, id: Id, asked_for: &Arc<LeaseRecord>) -> Arc<LeaseRecord> {
        let present = self.table().schedule.get(id);
        present.unwrap_or_else(|| Arc::clone(asked_for))
    }

    /// It is over, unless it has passed on meanwhile: then the alarm that has just rung was the next one's.
    fn forget_this(&self, id: Id, kept: &Arc<LeaseRecord>) {
        let mut table = self.table();
        match table.schedule.get(id) {
            Some(present) if !Arc::ptr_eq(&present, kept) => {
                let alarm = present.core().next();
                table.schedule.set_alarm(id, alarm);
            }
            _ => table.remove(id),
        }
    }

    /// Looks at a lease again, because its deadline moved.
    pub(crate) fn look_again(&self, id: Id) {
        self.set_alarms([(id, Moment::from_nanos(0))]);
    }

    fn set_alarms(&self, alarms: impl IntoIterator<Item = (Id, Moment)>) {
        let early = {
            let mut table = self.table();
            for (id, alarm) in alarms {
                table.schedule.set_alarm(id, alarm);
            }
            let first = table.schedule.first();
            first.is_some_and(|first| first < table.sleeps_until)
        };
        if early {
            self.changed.notify_one();
        }
    }

    /// Everything that is held, oldest first.
    pub(crate) fn held(&self) -> Vec<Arc<LeaseRecord>> {
        let all = self.table().schedule.all();
        all.into_iter().map(|(_, kept)| kept).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table().schedule.is_empty()
    }

    /// Runs for ever.
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

    /// Does all that is due and tells when the next thing is.
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
                table.schedule.ringing(now)
            };
            let mut renewals: Vec<Due> = due
                .into_iter()
                .filter(|(id, kept)| self.step(*id, kept, now))
                .collect();
            if !renewals.is_empty() {
                renewals.extend(self.soon_due(now));
                self.send(renewals);
            }
        }
    }

    /// True for a lease that is to be renewed now. Its alarm is its deadline until the answer comes.
    fn step(&self, id: Id, kept: &Arc<LeaseRecord>, now: Moment) -> bool {
        match kept.step(now) {
            Step::Until(next) => self.set_alarms([(id, next)]),
            Step::Renew => {
                let deadline = kept.core().deadline();
                self.set_alarms([(id, deadline)]);
                return true;
            }
            Step::Lost(reason) => {
                tracing::warn!(name = %kept.name, %reason, "lease lost");
                self.give_back_after_hold(kept, reason);
                self.forget_this(id, kept);
            }
            Step::Over => self.forget_this(id, kept),
        }
        false
    }

    /// Those who would be due in a moment and go along with those who are.
    fn soon_due(&self, now: Moment) -> Vec<Due> {
        let mut soon = self.table().schedule.ringing(now.plus(EARLY_MAX));
        soon.retain(|(_, kept)| kept.core().renew_early(now));
        self.set_alarms(soon.iter().map(|(id, kept)| (*id, kept.core().deadline())));
        soon
    }

    /// At the end of the longest hold the store still holds the key: the lease is given up for the holder.
    fn give_back_after_hold(&self, kept: &LeaseRecord, reason: LostReason) {
        if reason == LostReason::MaxHoldReached {
            let owed = PendingCleanup::release(
                kept.keys.clone(),
                kept.token.clone(),
                kept.fence,
                self.clock.now(),
            );
            self.cleanup.take(owed.claimed(kept.claim.clone()));
        }
    }

    fn note_time(&self, t0: Moment, time_us: Option<u64>) {
        let now = self.clock.now();
        if time_us.is_some_and(|time_us| self.skew.note(t0, now, time_us)) {
            self.verify_all();
        }
    }
}

impl Holder for Renewal {
    fn holds(&self) -> bool {
        !self.is_empty()
    }

    /// By a renewal.
    fn verify_all(&self) {
        let now = self.clock.now();
        let all = self.table().schedule.all();
        all.iter()
            .for_each(|(_, kept)| kept.core().verify_soon(now));
        self.set_alarms(all.into_iter().map(|(id, _)| (id, now)));
    }
}

/// One request may take a second, or a quarter of the ttl when that is less, so that a renewal can fail twice and a
/// third still comes before the deadline.
pub(crate) fn request_timeout(asked: Option<Duration>, ttl: Ttl) -> Duration {
    asked.unwrap_or_else(|| Duration::from_secs(1).min(ttl.as_duration() / 4))
}

mod absent;
mod revote;
mod send;
#[cfg(test)]
#[cfg(feature = "embedded")]
mod tests;
