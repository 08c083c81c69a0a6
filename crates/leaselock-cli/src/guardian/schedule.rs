//! When the guardian acts: pure arithmetic on nanoseconds, no clock, no process.
//!
//! Two moments come before every deadline: the *signal*, which asks the job to end, and the
//! *kill*, after which nothing of it runs. A later deadline moves both, until the first of them
//! has passed. From then on nothing calls the guardian back: a job that was signalled may have
//! stopped half-way, and a renewal that arrives now is no reason to believe in it again.
//!
//! A machine with much to do wakes the guardian late, and a kill after the deadline is too late. So
//! between signal and kill it checks the time more and more often, and the kill comes before the deadline by
//! four times as much as the latest check was late.

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
    /// runs slow, 100 ms cover the way to a processor on a busy machine. Where that would eat up
    /// the time between signal and kill, three quarters of it stay.
    fn margin(&self) -> u64 {
        /// The least time that the kill of a job comes before the deadline.
        const WAY: Duration = Duration::from_millis(100);
        let wanted = (self.ttl / 100).max(WAY).min(self.kill_after / 4);
        nanoseconds(wanted).max(10_000_000)
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
    /// The lease ends then, whatever comes.
    Signalled(u64),
    Killed,
}

/// The shortest time between two checks before a kill, and their distance as a part of the time until then.
const LOOK_EVERY: u64 = 10_000_000;
const LOOK_SHARE: u64 = 8;
/// By how much a kill may come later than any check before it.
const LATER_THAN_SHOWN: u64 = 4;

#[derive(Debug)]
pub(super) struct Schedule {
    plan: Plan,
    deadline: Option<u64>,
    is_lost: bool,
    stage: Stage,
    /// When the next check is due.
    due: Option<u64>,
    /// How late a check was at most.
    late: u64,
}

impl Schedule {
    pub(super) fn new(plan: Plan) -> Schedule {
        Schedule {
            plan,
            deadline: None,
            is_lost: false,
            stage: Stage::Armed,
            due: None,
            late: 0,
        }
    }

    /// The lease now ends at `deadline`. Of several names another may be renewed while one is lost: that counts no more.
    pub(super) fn extend(&mut self, deadline: u64) {
        match self.is_lost {
            false => self.deadline = Some(deadline),
            true => self.deadline = self.deadline.min(Some(deadline)),
        }
    }

    /// The lease is lost before its deadline: another holder may have the lock already.
    ///
    /// The job still gets its time to clean up, unless the old deadline leaves less of it.
    pub(super) fn lost(&mut self, now: u64) {
        let as_if = now.saturating_add(nanoseconds(self.plan.kill_after).max(self.plan.margin()));
        self.deadline = Some(self.deadline.map_or(as_if, |deadline| deadline.min(as_if)));
        self.is_lost = true;
    }

    /// Whether a job may start: there is a lease, and time before the signal.
    pub(super) fn may_start(&self, now: u64) -> bool {
        let is_early = |end| now < self.signal_at(end).min(self.kill_at(end));
        self.stage == Stage::Armed && self.deadline.is_some_and(is_early)
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
        let Some(deadline) = self.deadline else {
            return Next::Wait(None);
        };
        if let Some(due) = self.due.take() {
            self.late = self.late.max(now.saturating_sub(due));
        }
        match self.stage {
            Stage::Armed if now >= self.kill_at(deadline) => self.kill(),
            Stage::Armed if now >= self.signal_at(deadline) => {
                self.stage = Stage::Signalled(deadline);
                Next::Signal
            }
            Stage::Armed => self.wait(self.signal_at(deadline).min(self.kill_at(deadline))),
            Stage::Signalled(deadline) if now >= self.kill_at(deadline) => self.kill(),
            Stage::Signalled(deadline) => {
                let kill_at = self.kill_at(deadline);
                let pause = ((kill_at - now) / LOOK_SHARE).max(LOOK_EVERY);
                self.wait(kill_at.min(now + pause))
            }
            Stage::Killed => Next::Wait(None),
        }
    }

    fn wait(&mut self, until: u64) -> Next {
        self.due = Some(until);
        Next::Wait(Some(until))
    }

    fn kill(&mut self) -> Next {
        self.stage = Stage::Killed;
        Next::Kill
    }

    fn signal_at(&self, deadline: u64) -> u64 {
        deadline.saturating_sub(nanoseconds(self.plan.kill_after))
    }

    /// The job keeps half of its time to clean up, however late the machine is.
    fn kill_at(&self, deadline: u64) -> u64 {
        let shown = (self.late * LATER_THAN_SHOWN).min(nanoseconds(self.plan.kill_after / 2));
        deadline.saturating_sub(self.plan.margin().max(shown))
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

    /// Asks the schedule at every moment that is due, so much late, until the kill. Returns when that came.
    fn looks(schedule: &mut Schedule, mut now: u64, late: u64) -> u64 {
        loop {
            match schedule.next(now) {
                Next::Wait(Some(at)) => now = at + late,
                Next::Kill => return now,
                other => panic!("{other:?}"),
            }
        }
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
        assert_eq!(looks(&mut schedule, 8_000 * MS, 0), 9_900 * MS);
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
        assert_eq!(looks(&mut schedule, 8_001 * MS, 0), 9_900 * MS);
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
        assert_eq!(looks(&mut schedule, 1_000 * MS, 0), 2_900 * MS);
    }

    #[test]
    fn a_lost_lease_never_moves_the_kill_beyond_the_old_deadline() {
        let mut schedule = schedule();
        schedule.extend(10_000 * MS);
        schedule.lost(9_000 * MS);
        assert_eq!(schedule.next(9_000 * MS), Next::Signal);
        assert_eq!(looks(&mut schedule, 9_000 * MS, 0), 9_900 * MS);
    }

    #[test]
    fn after_a_loss_a_later_deadline_of_another_name_changes_nothing() {
        let mut schedule = schedule();
        schedule.extend(20_000 * MS);
        schedule.lost(1_000 * MS);
        schedule.extend(30_000 * MS);
        assert_eq!(schedule.next(1_000 * MS), Next::Signal);
        assert_eq!(looks(&mut schedule, 1_000 * MS, 0), 2_900 * MS);
    }

    #[test]
    fn a_guardian_that_looks_late_kills_earlier_and_leaves_the_job_half_of_its_time() {
        for (late, kill_at) in [(10, 9_900), (100, 9_600), (700, 9_000)] {
            let mut schedule = schedule();
            schedule.extend(10_000 * MS);
            assert_eq!(schedule.next(8_000 * MS), Next::Signal);
            let killed = looks(&mut schedule, 8_000 * MS, late * MS);
            let last = (kill_at + late) * MS;
            assert!(
                (kill_at * MS..=last).contains(&killed),
                "{late} ms late: {killed}"
            );
        }
    }

    #[test]
    fn the_looks_before_a_kill_are_few() {
        let mut schedule = schedule();
        schedule.extend(10_000 * MS);
        assert_eq!(schedule.next(8_000 * MS), Next::Signal);
        let (mut now, mut count) = (8_000 * MS, 0);
        while let Next::Wait(Some(at)) = schedule.next(now) {
            (now, count) = (at, count + 1);
        }
        assert!(count < 50, "{count}");
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
            let end = nanoseconds(ttl);
            let (signal_at, kill_at) = (schedule.signal_at(end), schedule.kill_at(end));
            assert!(kill_at + 10 * MS <= nanoseconds(ttl), "ttl {ttl:?}");
            assert!(signal_at + 10 * MS <= kill_at, "ttl {ttl:?}");
            assert!(schedule.may_start(nanoseconds(ttl / 2)), "ttl {ttl:?}");
        }
    }
}
