//! The life of one lease as a pure state machine: time is an argument, nothing is sent or read here.

use std::time::Duration;

use crate::base::error::LostReason;
use crate::base::{Drift, Moment, StoreError, Ttl};
use crate::engine::values::AcquireTerms;

/// A renewal follows after a third of the remaining time, 12 h at most, so that two more tries fit before the deadline.
const RENEW_AFTER_SHARE: u32 = 3;
/// The longest pause before a renewal, or before its next try, so that what the store remembers beside the lease is kept
/// in time.
const PAUSE_MAX: Duration = Duration::from_secs(12 * 3_600);
/// How often what the store remembers beside a lease is kept: it would forget the fencing token after 26 hours.
const KEEP_EVERY: Duration = Duration::from_secs(6 * 3_600);
/// The least pause between two failed renewals, however little time is left.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(5);
/// The longest pause between two tries when the store may have lost the lease.
const DOUBT_PAUSE_MAX: Duration = Duration::from_secs(1);

/// A lease that is due within this share of its ttl is renewed with others, so that leases that are held together are
/// renewed together. At worst, a renewal then runs at 28 % instead of 33 % of the ttl.
const EARLY_SHARE: u32 = 20;
/// The most by which a renewal may be early: with more, many leases would gather into bursts.
pub(crate) const EARLY_MAX: Duration = Duration::from_millis(100);

/// What the renewal task must do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// Send one extension and report with `extended`, `refused` or `failed`.
    Renew,
    /// Report that the lease has just ended.
    Lost(LostReason),
    /// Do nothing before this moment.
    Until(Moment),
    /// The lease had ended before.
    Over,
}

/// What a lease is renewed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeaseTerms {
    /// As it was acquired, with the ttl of the latest extension. Its renewals need the ttl, and whether there are any.
    pub(crate) asked: AcquireTerms,
    pub(crate) hold_until: Option<Moment>,
}

impl LeaseTerms {
    /// Returns those of a lease that began at `began`.
    pub(crate) fn of(asked: AcquireTerms, max_hold: Option<Duration>, began: Moment) -> Self {
        LeaseTerms {
            asked,
            hold_until: max_hold.map(|longest| began.plus(longest)),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct LeaseMachine {
    terms: LeaseTerms,
    drift: Drift,
    deadline: Moment,
    renew_at: Moment,
    renewing: bool,
    /// The error of the latest renewal.
    trouble: Option<StoreError>,
    /// When the store last confirmed the lease.
    confirmed: Moment,
    /// When what the store remembers beside the lease was kept last.
    kept: Moment,
    /// When the latest reason came to think that the store has lost the lease.
    doubted: Option<Moment>,
    /// True while a request may change how the lease is held, so that a refused renewal says nothing.
    pub(crate) changing: bool,
    /// True until the task that the lease was handed to has taken it. No renewal runs for it: it may never be polled.
    offered: bool,
    /// Why it has ended; `None` while it is held.
    lost: Option<LostReason>,
}

impl LeaseMachine {
    /// Creates a lease that began at `began` at the earliest and is held until `deadline`.
    ///
    /// The deadline may be earlier than the ttl says, which is what renewals ask for.
    pub(crate) fn granted(
        began: Moment,
        deadline: Moment,
        now: Moment,
        terms: LeaseTerms,
        drift: Drift,
    ) -> Self {
        let mut core = LeaseMachine {
            terms,
            drift,
            deadline: began,
            renew_at: began,
            renewing: false,
            trouble: None,
            confirmed: now,
            kept: began,
            doubted: None,
            changing: false,
            offered: false,
            lost: None,
        };
        core.held_until(deadline, now);
        core
    }

    /// Creates the state of the same lease for the next task of this client, with a longest hold of its own.
    ///
    /// A renewal in flight counts for the next task as well.
    pub(crate) fn passed_on(&self, now: Moment, ttl: Ttl, max_hold: Option<Duration>) -> Self {
        let hold_until = max_hold.map(|hold| now.plus(hold));
        let deadline = hold_until.map_or(self.deadline, |until| until.min(self.deadline));
        let renew_at = if self.renewing {
            now.plus(pause(deadline.saturating_since(now), RENEW_AFTER_SHARE))
        } else {
            self.renew_at
        };
        let terms = LeaseTerms {
            asked: AcquireTerms {
                ttl,
                ..self.terms.asked
            },
            hold_until,
        };
        LeaseMachine {
            terms,
            deadline,
            renew_at,
            renewing: false,
            changing: false,
            offered: true,
            lost: None,
            ..self.clone()
        }
    }

    /// Notes that the task has taken the lease. True if a renewal is due already.
    pub(crate) fn take_up(&mut self, now: Moment) -> bool {
        self.offered = false;
        self.terms.asked.renews && now >= self.renew_at
    }

    /// Notes that the lease is ready for a task that has not taken it yet.
    pub(crate) fn offer(&mut self) {
        self.offered = true;
    }

    pub(crate) fn deadline(&self) -> Moment {
        self.deadline
    }

    pub(crate) fn ttl(&self) -> Ttl {
        self.terms.asked.ttl
    }

    /// Returns true if the latest renewal failed and the deadline has not passed.
    pub(crate) fn is_suspect(&self) -> bool {
        self.trouble.is_some() && self.lost.is_none()
    }

    pub(crate) fn trouble(&self) -> Option<&StoreError> {
        self.trouble.as_ref()
    }

    pub(crate) fn unconfirmed_for(&self, now: Moment) -> Duration {
        now.saturating_since(self.confirmed)
    }

    /// Returns which share is left of the time for which the store last confirmed the lease, in millionths. `None` when
    /// the longest hold ends sooner.
    pub(crate) fn headroom(&self, now: Moment) -> Option<u64> {
        let left = self.deadline.saturating_since(now).as_micros();
        let whole = left + self.unconfirmed_for(now).as_micros();
        let share = left * 1_000_000 / whole.max(1);
        let is_whole = self.terms.hold_until != Some(self.deadline);
        u64::try_from(share).ok().filter(|_| is_whole)
    }

    pub(crate) fn lost(&self) -> Option<LostReason> {
        self.lost
    }

    /// Returns what to do at `now`. It returns `Renew` once; call it again after the report.
    pub(crate) fn step(&mut self, now: Moment) -> NextStep {
        if self.lost.is_some() {
            return NextStep::Over;
        }
        if now >= self.deadline {
            let reason = self.ran_out();
            self.lost = Some(reason);
            return NextStep::Lost(reason);
        }
        if self.may_renew() && !self.offered && now >= self.next() {
            self.renewing = true;
            return NextStep::Renew;
        }
        NextStep::Until(self.alarm(now))
    }

    /// Returns when `step` has something to do again.
    pub(crate) fn next(&self) -> Moment {
        match self.lost {
            Some(_) => Moment::from_nanos(0),
            None if self.may_renew() => self.renew_at.min(self.deadline),
            None => self.deadline,
        }
    }

    /// Returns when the renewal task must come. An offered lease whose renewal is due waits for the task that takes it.
    pub(crate) fn alarm(&self, now: Moment) -> Moment {
        let next = self.next();
        if self.offered && self.lost.is_none() && now >= next {
            return self.deadline;
        }
        next
    }

    fn may_renew(&self) -> bool {
        let at_end = self.terms.hold_until == Some(self.deadline);
        self.terms.asked.renews && !self.renewing && !at_end
    }

    /// Returns true for a lease to renew now with others, although it is not due yet. The report is as after `Renew`.
    pub(crate) fn renew_early(&mut self, now: Moment) -> bool {
        let early = EARLY_MAX.min(self.ttl().as_duration() / EARLY_SHARE);
        let held = self.lost.is_none() && now < self.deadline && !self.offered;
        // A lease whose last renewal failed keeps its own time for the next try.
        let goes =
            held && self.may_renew() && self.trouble.is_none() && now.plus(early) >= self.renew_at;
        self.renewing |= goes;
        goes
    }

    fn ran_out(&self) -> LostReason {
        let hold_until = self.terms.hold_until;
        if hold_until.is_some_and(|until| self.deadline >= until) {
            LostReason::MaxHoldReached
        } else if self.trouble.is_some() || self.renewing {
            LostReason::StoreUnreachable
        } else {
            LostReason::Expired
        }
    }

    /// Notes that the store holds the lease for `ttl`, by a request begun at `t0`. A lost lease stays lost.
    pub(crate) fn extended(&mut self, t0: Moment, now: Moment, ttl: Ttl) {
        self.renewing = false;
        if self.lost.is_some() {
            return;
        }
        self.trouble = None;
        self.confirmed = now;
        self.doubted = self.doubted.filter(|since| t0 < *since);
        self.held_until(self.drift.deadline(t0, ttl), now);
        if self.doubted.is_some() {
            self.renew_at = now; // a reply to an earlier request says nothing about what has happened since
        }
    }

    fn held_until(&mut self, deadline: Moment, now: Moment) {
        // The store never shortens, so the later of both deadlines holds.
        let end = deadline.max(self.deadline);
        self.deadline = self.terms.hold_until.map_or(end, |until| end.min(until));
        self.renew_at = now.plus(pause(
            self.deadline.saturating_since(now),
            RENEW_AFTER_SHARE,
        ));
    }

    /// Notes a renewal that was refused. True if that ends the lease: while it is changed, the reply to the change says
    /// whether it is held.
    pub(crate) fn refused(&mut self, now: Moment) -> bool {
        if self.changing {
            self.renewing = false;
            self.held_until(self.deadline, now);
        }
        !self.changing
    }

    /// Sets the ttl that later renewals ask for.
    pub(crate) fn set_ttl(&mut self, ttl: Ttl) {
        self.terms.asked.ttl = ttl;
    }

    pub(crate) fn terms(&self) -> LeaseTerms {
        self.terms
    }

    /// Sets what later renewals ask for, and until when it may be held. True if that is a change.
    ///
    /// A renewal for a longer ttl than before is due at once.
    pub(crate) fn set_terms(&mut self, terms: LeaseTerms, now: Moment) -> bool {
        let before = std::mem::replace(&mut self.terms, terms);
        if before == terms {
            return false;
        }
        if let Some(until) = terms.hold_until {
            self.deadline = self.deadline.min(until);
        }
        let third = self.deadline.saturating_since(now) / RENEW_AFTER_SHARE;
        let (asked, earlier) = (terms.asked, before.asked);
        let asks_for_more = asked.ttl > earlier.ttl || asked.renews && !earlier.renews;
        let due = if asks_for_more { now } else { now.plus(third) };
        self.renew_at = self.renew_at.min(due);
        true
    }

    /// Notes a renewal without a usable reply. That is no loss: only the deadline is.
    pub(crate) fn failed(&mut self, now: Moment, trouble: StoreError) {
        self.renewing = false;
        self.trouble = Some(trouble);
        let left = self.deadline.saturating_since(now);
        let mut pause = pause(left, RENEW_AFTER_SHARE * 2);
        if self.doubted.is_some() {
            pause = pause.min(DOUBT_PAUSE_MAX);
        }
        self.renew_at = now.plus(pause.max(RETRY_PAUSE_MIN));
    }

    /// Returns true when it is time to keep what the store remembers beside the lease, and notes that as done.
    pub(crate) fn keep_is_due(&mut self, now: Moment) -> bool {
        let is_due = now >= self.kept.plus(KEEP_EVERY);
        if is_due {
            self.kept = now;
        }
        is_due
    }

    /// Makes a renewal due at once, because something happened to the store, and repeats it soon until a reply comes.
    pub(crate) fn verify_soon(&mut self, now: Moment) {
        self.doubted = Some(now);
        self.renew_at = self.renew_at.min(now);
    }

    /// Takes over a doubt that has come since this state was created from the one before.
    pub(crate) fn doubt_as(&mut self, before: &LeaseMachine) {
        if let Some(since) = before.doubted.filter(|_| before.doubted > self.doubted) {
            self.verify_soon(since);
        }
    }

    /// Ends the lease for a reason from outside. True for the first reason, which stays.
    pub(crate) fn end(&mut self, reason: LostReason) -> bool {
        let first = self.lost.is_none();
        self.lost.get_or_insert(reason);
        first
    }
}

fn pause(left: Duration, parts: u32) -> Duration {
    PAUSE_MAX.min(left / parts)
}

#[cfg(test)]
mod tests;
