//! When the guardian acts: pure arithmetic on nanoseconds, no clock, no process.
//!
//! Two moments come before every deadline: the *signal*, which asks the job to end, and the
//! *kill*, after which nothing of it runs. A later deadline moves both, until the first of them
//! has passed. From then on nothing calls the guardian back: a job that was signalled may have
//! stopped half-way, and a renewal that arrives now is no reason to believe in it again.

use std::time::Duration;

use rustix::process::Signal;

use crate::boottime::nanoseconds;

/// What the user asked for, known before the store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Length of a full lease.
    pub(crate) ttl: Duration,
    /// Time between the signal and the deadline; less than half the ttl.
    pub(crate) kill_after: Duration,
    /// The signal that asks the job to end.
    pub(crate) signal: Signal,
}

impl Plan {
    /// How long before the deadline the kill comes: a hundredth of the ttl covers a clock that
    /// runs slow, 10 ms cover the way to a processor on a busy machine. Of a long lease a
    /// hundredth would eat up the time between signal and kill, so three quarters of that stay.
    fn margin(&self) -> u64 {
        nanoseconds((self.ttl / 100).min(self.kill_after / 4)).max(10_000_000)
    }
}

impl Plan {
    /// How long after the signal the kill comes, when the lease ends in `lease_ends_in`.
    pub(crate) fn kill_in(&self, lease_ends_in: Duration) -> Duration {
        let end = nanoseconds(self.kill_after)
            .max(self.margin())
            .min(nanoseconds(lease_ends_in));
        Duration::from_nanos(end.saturating_sub(self.margin()))
    }
}

/// What is due now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing before this moment, or before the next message.
    Wait(Option<u64>),
    /// Ask the job to end.
    Signal,
    /// End it.
    Kill,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Armed,
    Signalled { kill_at: u64 },
    Killed,
}

#[derive(Debug)]
pub(super) struct Schedule {
    plan: Plan,
    deadline: Option<u64>,
    stage: Stage,
}

impl Schedule {
    pub(super) fn new(plan: Plan) -> Schedule {
        Schedule {
            plan,
            deadline: None,
            stage: Stage::Armed,
        }
    }

    /// The lease now ends at `deadline`.
    pub(super) fn extend(&mut self, deadline: u64) {
        self.deadline = Some(deadline);
    }

    /// The lease is lost before its deadline: another holder may have the lock already.
    ///
    /// The job still gets its time to clean up, unless the old deadline leaves less of it.
    pub(super) fn lost(&mut self, now: u64) {
        let as_if = now.saturating_add(nanoseconds(self.plan.kill_after).max(self.plan.margin()));
        self.deadline = Some(self.deadline.map_or(as_if, |deadline| deadline.min(as_if)));
    }

    /// Whether a job may start: there is a lease, and time before the signal.
    pub(super) fn may_start(&self, now: u64) -> bool {
        let first = self.signal_at().min(self.kill_at());
        self.stage == Stage::Armed && first.is_some_and(|at| now < at)
    }

    /// Whether the job was signalled to end.
    pub(super) fn fired(&self) -> bool {
        self.stage != Stage::Armed
    }

    /// Whether the job's last moment has passed.
    pub(super) fn killed(&self) -> bool {
        self.stage == Stage::Killed
    }

    /// What is due at `now`; each act is answered once.
    pub(super) fn next(&mut self, now: u64) -> Next {
        let (Some(signal_at), Some(kill_at)) = (self.signal_at(), self.kill_at()) else {
            return Next::Wait(None);
        };
        match self.stage {
            Stage::Armed if now >= kill_at => self.kill(),
            Stage::Armed if now >= signal_at => {
                self.stage = Stage::Signalled { kill_at };
                Next::Signal
            }
            Stage::Armed => Next::Wait(Some(signal_at.min(kill_at))),
            Stage::Signalled { kill_at } if now >= kill_at => self.kill(),
            Stage::Signalled { kill_at } => Next::Wait(Some(kill_at)),
            Stage::Killed => Next::Wait(None),
        }
    }

    fn kill(&mut self) -> Next {
        self.stage = Stage::Killed;
        Next::Kill
    }

    fn signal_at(&self) -> Option<u64> {
        Some(
            self.deadline?
                .saturating_sub(nanoseconds(self.plan.kill_after)),
        )
    }

    fn kill_at(&self) -> Option<u64> {
        Some(self.deadline?.saturating_sub(self.plan.margin()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A lease of 10 s that asks 2 s before its end and kills 100 ms before it.
    fn schedule() -> Schedule {
        Schedule::new(Plan {
            ttl: Duration::from_secs(10),
            kill_after: Duration::from_secs(2),
            signal: Signal::TERM,
        })
    }

    #[test]
    fn without_a_lease_nothing_is_due_and_no_job_may_start() {
        let mut schedule = schedule();
        assert_eq!(schedule.next(u64::MAX), Next::Wait(None));
        assert!(!schedule.may_start(0));
    }

    #[test]
    fn the_signal_comes_kill_after_before_the_deadline_and_the_kill_before_it() {
        let mut schedule = schedule();
        schedule.extend(10_000 * MS);
        assert_eq!(schedule.next(0), Next::Wait(Some(8_000 * MS)));
        assert_eq!(schedule.next(8_000 * MS - 1), Next::Wait(Some(8_000 * MS)));
        assert_eq!(schedule.next(8_000 * MS), Next::Signal);
        assert_eq!(schedule.next(8_000 * MS), Next::Wait(Some(9_900 * MS)));
        assert_eq!(schedule.next(9_900 * MS), Next::Kill);
        assert_eq!(schedule.next(u64::MAX), Next::Wait(None));
    }

    #[test]
    fn a_later_deadline_moves_both() {
        let mut schedule = schedule();
        schedule.extend(10_000 * MS);
        schedule.extend(13_000 * MS);
        assert_eq!(schedule.next(10_999 * MS), Next::Wait(Some(11_000 * MS)));
        assert!(!schedule.fired());
    }

    #[test]
    fn once_it_has_fired_later_deadlines_change_nothing() {
        let mut schedule = schedule();
        schedule.extend(10_000 * MS);
        assert_eq!(schedule.next(8_000 * MS), Next::Signal);
        schedule.extend(60_000 * MS);
        assert!(schedule.fired());
        assert_eq!(schedule.next(8_001 * MS), Next::Wait(Some(9_900 * MS)));
        assert_eq!(schedule.next(9_900 * MS), Next::Kill);
    }

    #[test]
    fn a_guardian_that_wakes_up_too_late_kills_without_asking() {
        let mut schedule = schedule();
        schedule.extend(10_000 * MS);
        assert_eq!(schedule.next(30_000 * MS), Next::Kill);
        assert!(schedule.fired());
    }

    #[test]
    fn a_lost_lease_is_acted_on_at_once_and_leaves_the_time_to_clean_up() {
        let mut schedule = schedule();
        schedule.extend(10_000 * MS);
        schedule.lost(1_000 * MS);
        assert_eq!(schedule.next(1_000 * MS), Next::Signal);
        assert_eq!(schedule.next(1_000 * MS), Next::Wait(Some(2_900 * MS)));
        assert_eq!(schedule.next(2_900 * MS), Next::Kill);
    }

    #[test]
    fn a_lost_lease_never_moves_the_kill_beyond_the_old_deadline() {
        let mut schedule = schedule();
        schedule.extend(10_000 * MS);
        schedule.lost(9_000 * MS);
        assert_eq!(schedule.next(9_000 * MS), Next::Signal);
        assert_eq!(schedule.next(9_000 * MS), Next::Wait(Some(9_900 * MS)));
    }

    #[test]
    fn a_job_may_start_only_while_there_is_time_before_the_signal() {
        let mut schedule = schedule();
        schedule.extend(10_000 * MS);
        assert!(schedule.may_start(7_999 * MS));
        assert!(!schedule.may_start(8_000 * MS));
    }

    #[test]
    fn a_kill_after_below_the_margin_means_kill_at_once() {
        let plan = Plan {
            kill_after: Duration::ZERO,
            ..schedule().plan
        };
        let mut schedule = Schedule::new(plan);
        schedule.extend(10_000 * MS);
        assert!(!schedule.may_start(9_990 * MS));
        assert_eq!(schedule.next(0), Next::Wait(Some(9_990 * MS)));
        assert_eq!(schedule.next(9_990 * MS), Next::Kill);
    }

    #[test]
    fn for_every_ttl_the_kill_is_before_the_deadline_and_the_signal_before_the_kill() {
        for ttl_ms in (100..2_000).chain([3_000, 10_000, 300_000, 86_400_000, 2_592_000_000]) {
            let ttl = Duration::from_millis(ttl_ms);
            let kill_after = Duration::from_secs(2).min(ttl / 5);
            let mut schedule = Schedule::new(Plan {
                ttl,
                kill_after,
                signal: Signal::TERM,
            });
            schedule.extend(nanoseconds(ttl));
            let (signal_at, kill_at) = (schedule.signal_at().unwrap(), schedule.kill_at().unwrap());
            assert!(kill_at + 10 * MS <= nanoseconds(ttl), "ttl {ttl:?}");
            assert!(signal_at + 10 * MS <= kill_at, "ttl {ttl:?}");
            assert!(schedule.may_start(nanoseconds(ttl / 2)), "ttl {ttl:?}");
        }
    }
}
