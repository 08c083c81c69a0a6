//! Which ticks a host that starts, or that was away, is still to run. Time is an argument.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use crate::schedule::Schedule;

/// So many missed ticks are run at most.
const MOST: usize = 100;
/// A tick is a multiple of this.
const MICROSECOND: Duration = Duration::from_micros(1);

/// What becomes of ticks that no host has begun in time, as when all of them were down.
///
/// The first start of a schedule has no past: nothing was missed then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CatchUp {
    /// They are left out.
    #[default]
    None,
    /// The latest of them runs, unless a later tick is due anyway.
    Latest,
    /// All of them run, one after the other; the latest 100 if there are more.
    All,
}

/// What is known of a schedule's past.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    /// The latest tick that was run or left out.
    pub(crate) latest: Option<SystemTime>,
    /// A tick up to there that is to be run again, because its run did not finish. Those after it were left out.
    pub(crate) open: Option<SystemTime>,
    /// By the server's clock.
    pub(crate) now: SystemTime,
}

/// What is to be done: the missed ticks first, then all ticks of the schedule after a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Ticks whose time to begin is over.
    pub(crate) missed: VecDeque<SystemTime>,
    /// The newest tick whose time is over and that is not run any more.
    pub(crate) left_out: Option<SystemTime>,
    /// From here on each tick is run at its time, or up to `late` after it.
    pub(crate) after: SystemTime,
}

impl Plan {
    pub(crate) fn new(
        schedule: &Schedule,
        known: Known,
        late: Duration,
        catch_up: CatchUp,
    ) -> Plan {
        let Some(latest) = known.latest else {
            return Plan {
                missed: VecDeque::new(),
                left_out: None,
                after: known.now,
            };
        };
        let in_time = known
            .now
            .checked_sub(late)
            .unwrap_or(SystemTime::UNIX_EPOCH);
        let before = |time: SystemTime| time.checked_sub(MICROSECOND).unwrap_or(time);
        let done = known.open.map_or(latest, before);
        let after = done.max(before(in_time));
        let most = match catch_up {
            CatchUp::None => 0,
            CatchUp::Latest => match schedule.next_after(after) {
                Some(tick) if tick <= known.now => 0,
                _ => 1,
            },
            CatchUp::All => MOST,
        };
        let left_out = match most {
            0 => newest(schedule, latest, in_time, 1).pop_back(),
            _ => None,
        };
        Plan {
            left_out,
            missed: newest(schedule, latest, in_time, most),
            after,
        }
    }
}

/// The newest ticks between two times, both excluded, in their order.
///
/// It searches further and further back, because the distance between two ticks may be a second or a year.
fn newest(
    schedule: &Schedule,
    after: SystemTime,
    before: SystemTime,
    most: usize,
) -> VecDeque<SystemTime> {
    let mut found = VecDeque::new();
    if most == 0 {
        return found;
    }
    let mut back = Duration::from_secs(60);
    loop {
        let start = before.checked_sub(back).unwrap_or(after).max(after);
        found.clear();
        for tick in schedule.after(start).take_while(|tick| *tick < before) {
            if found.len() == most {
                found.pop_front();
            }
            found.push_back(tick);
        }
        if found.len() == most || start == after {
            return found;
        }
        back = back.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const YEAR: u64 = 365 * 24 * 3600;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(50 * YEAR + seconds)
    }

    fn minutely() -> Schedule {
        "* * * * *".parse().unwrap()
    }

    fn plan(latest: u64, now: u64, catch_up: CatchUp) -> Plan {
        let known = Known {
            latest: Some(at(latest)),
            open: None,
            now: at(now),
        };
        Plan::new(&minutely(), known, Duration::from_secs(60), catch_up)
    }

    #[test]
    fn a_first_start_takes_nothing_of_the_past() {
        let known = Known {
            latest: None,
            open: None,
            now: at(90),
        };
        for catch_up in [CatchUp::None, CatchUp::Latest, CatchUp::All] {
            let plan = Plan::new(&minutely(), known, Duration::from_secs(3600), catch_up);
            assert_eq!((plan.missed.len(), plan.after), (0, at(90)));
        }
    }

    #[test]
    fn the_latest_missed_tick_runs_unless_a_later_one_is_due() {
        let day: Schedule = "0 0 * * *".parse().unwrap();
        let known = |now| Known {
            latest: Some(at(0)),
            open: None,
            now: at(now),
        };
        let late = Duration::from_secs(60);
        let plan = |now| Plan::new(&day, known(now), late, CatchUp::Latest).missed;
        let days = |days: u64| days * 24 * 3600;
        assert_eq!(plan(days(3) + 61), [at(days(3))]);
        assert!(plan(days(3) + 60).is_empty()); // the third is due anyway
        assert!(plan(days(1) - 1).is_empty());
    }

    #[test]
    fn of_very_many_missed_ticks_the_newest_hundred_run() {
        let caught_up = plan(0, 30 * 24 * 3600, CatchUp::All);
        assert_eq!(caught_up.missed.len(), MOST);
        assert_eq!(caught_up.missed.back(), Some(&at(30 * 24 * 3600 - 120)));
        assert!(caught_up.missed.iter().is_sorted());
    }

    #[test]
    fn a_tick_whose_run_did_not_finish_comes_again_while_it_is_in_time() {
        // Later ticks may have been left out since.
        for left_out in [0, 60] {
            for (late, comes_again) in [(30, true), (60, true), (61, false)] {
                let known = Known {
                    latest: Some(at(left_out)),
                    open: Some(at(0)),
                    now: at(late + left_out),
                };
                let in_time = Duration::from_secs(60 + left_out);
                let plan = Plan::new(&minutely(), known, in_time, CatchUp::All);
                let next = minutely().next_after(plan.after).unwrap();
                assert_eq!(next == at(0), comes_again, "{late} {left_out}");
                assert!(plan.missed.is_empty());
            }
        }
    }

    #[test]
    fn a_clock_that_goes_back_brings_no_tick_again() {
        let back = plan(3600, 0, CatchUp::All);
        assert_eq!((back.missed.len(), back.after), (0, at(3600)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_tick_since_the_latest_is_missed_or_still_to_come(
            expression in prop::sample::select(vec!["*/20 * * * *", "*/7 3 * * *", "0 0 * * 1", "0 0 1 * *"]),
            latest in 0..30 * 24 * 3600u64,
            away in 0..20 * 24 * 3600u64,
            late in 0..7200u64,
            catch_up in prop::sample::select(vec![CatchUp::None, CatchUp::Latest, CatchUp::All]),
        ) {
            let schedule: Schedule = expression.parse().unwrap();
            let (latest, now) = (at(latest), at(latest + away));
            let known = Known { latest: Some(latest), open: None, now };
            let late = Duration::from_secs(late);
            let plan = Plan::new(&schedule, known, late, catch_up);

            let all: Vec<SystemTime> = schedule.after(latest).take_while(|tick| *tick <= now).collect();
            let (missed, due): (Vec<_>, Vec<_>) = all.into_iter().partition(|tick| *tick + late < now);
            let to_come = schedule.after(plan.after).take_while(|tick| *tick <= now);
            prop_assert_eq!(to_come.collect::<Vec<_>>(), due.clone());
            let most = match catch_up {
                CatchUp::None => 0,
                CatchUp::Latest => usize::from(due.is_empty()),
                CatchUp::All => MOST,
            };
            let newest = missed.len().saturating_sub(most);
            prop_assert_eq!(Vec::from(plan.missed), missed[newest..].to_vec());
        }
    }
}
