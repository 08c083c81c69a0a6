//! When a waiter polls without having been woken. Pure arithmetic.
//!
//! Messages can be lost, and none is sent when a lease expires or another library releases. So every waiter also polls
//! at a low rate: the head of the queue when the lease ends, the others at least every five seconds. A frozen head costs
//! them the lease that was passed to it and no more.
//!
//! **Behind a foreign holder** a release is noticed after half a second at the latest, whatever the server announces. The
//! head polls every 500 ms, and sooner only when the lease ends sooner or the server says that the key changed. The n-th
//! waiter polls every n half seconds, at least every five seconds too. However short the holder's leases are, and whatever
//! is announced about the key, a head makes no more than nine polls in any second ([`RateLimit`]).

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::base::Moment;
use crate::engine::values::Seen;

/// The head polls at least this often.
const HEAD_MOST: Duration = Duration::from_secs(5);
/// No message is sent when a foreign holder releases, and a waiter without wake-ups receives none.
const UNWOKEN_MOST: Duration = Duration::from_millis(500);
/// The others poll when the lease ends too, because the waiters in front of them may be gone. They poll no more often than
/// this, however short the lease is: in a queue of a thousand that is a hundred polls a second, for all of them.
const OTHERS_LEAST: Duration = Duration::from_secs(1);
/// A hand-over tells only the waiter that it grants to. When that one is frozen, the others learn of it by a poll: one
/// that polls at least this often, with all that [`spread`] adds, has seen the lease that was passed before it ends, and
/// polls again by its end. What a frozen waiter costs is the lease that was passed to it, and no more.
const LEARNS_WITHIN: Duration = Duration::from_secs(5);
/// Far behind, polls are rarer, so that a long queue does not poll in proportion to its length: 200 in a second for the
/// first thousand, and about as many for the next two thousand. The interval grows no faster, because a known position
/// may be an old one: those in front may have left since.
const PER_POSITION: Duration = Duration::from_millis(5);
/// But at least this often: three such polls fit into the 45 s after which an entry counts as abandoned.
const FAR_MOST: Duration = Duration::from_secs(15);
/// Later waiters poll a little later than the head when a lease ends, in case the head is gone.
const LATER_EACH: Duration = Duration::from_millis(100);
/// A key is gone one millisecond after its time at the earliest.
const JUST_AFTER: Duration = Duration::from_millis(1);
/// However short the rest of a lease, polls are not closer than this.
const LEAST: Duration = Duration::from_millis(2);

/// Behind a foreign holder so many polls may follow each other at once,
const AT_ONCE: u32 = 3;
/// and one more after each of these: nine in a second at most.
const ONE_MORE_EACH: Duration = Duration::from_millis(150);

/// How long to wait for a wake-up before the next poll.
pub(crate) fn next_poll(
    seen: &Seen,
    position: u64,
    can_be_woken: bool,
    store_most: Duration,
) -> Duration {
    let by_end = seen.remaining.map_or(HEAD_MOST, |rest| rest + JUST_AFTER);
    let before = u32::try_from(position.saturating_sub(1)).unwrap_or(u32::MAX);
    let handed_over = can_be_woken && seen.holder.is_some();
    let wait = if position <= 1 {
        by_end.min(if handed_over { HEAD_MOST } else { UNWOKEN_MOST })
    } else if handed_over {
        (by_end + LATER_EACH.saturating_mul(before)).clamp(OTHERS_LEAST, others_most(position))
    } else if can_be_woken {
        // No message says that the head is gone, so the next waiters poll like slower heads.
        UNWOKEN_MOST
            .saturating_mul(before.saturating_add(1))
            .min(others_most(position))
    } else {
        // Without wake-ups a waiter learns only by polling that it has become the head.
        (UNWOKEN_MOST + LATER_EACH.saturating_mul(before)).min(HEAD_MOST)
    };
    wait.min(store_most).max(LEAST)
}

/// The longest interval between the polls of a waiter at this position, before [`spread`] makes it longer.
fn others_most(position: u64) -> Duration {
    let positions = u32::try_from(position).unwrap_or(u32::MAX);
    let most = PER_POSITION.saturating_mul(positions);
    most.clamp(LEARNS_WITHIN, FAR_MOST) * SPREAD_PARTS / (SPREAD_PARTS + 1)
}

/// How often the head polls behind a foreign holder, whatever the reason for a poll.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RateLimit {
    /// When polls may follow each other at once again.
    rested_at: Option<Moment>,
}

impl RateLimit {
    /// Polls for other reasons count too, but never make the next one wait for longer than its turn.
    pub(crate) fn polled(&mut self, now: Moment) {
        let from = self.rested_at.map_or(now, |at| at.max(now));
        let latest = now.plus(ONE_MORE_EACH * AT_ONCE);
        self.rested_at = Some(from.plus(ONE_MORE_EACH).min(latest));
    }

    /// From when on the next poll keeps the pace.
    pub(crate) fn next(&self, now: Moment) -> Moment {
        let early = ONE_MORE_EACH * (AT_ONCE - 1);
        self.rested_at.map_or(now, |at| at.minus(early).max(now))
    }
}

/// Behind the head an interval is longer by up to one part in so many.
const SPREAD_PARTS: u32 = 10;

/// A little later than that, so that waiters do not move in step: milliseconds at the head, where a lock stands idle
/// meanwhile, and a tenth behind it.
pub(crate) fn spread(wait: Duration, position: u64) -> Duration {
    wait + jittered(spread_most(wait, position) / 2, 100)
}

/// By how much [`spread`] makes an interval longer at most.
fn spread_most(wait: Duration, position: u64) -> Duration {
    /// By how much the head of a queue polls later than others of its kind, at most.
    const HEAD_SPREAD: Duration = Duration::from_millis(5);
    if position <= 1 {
        HEAD_SPREAD.min(wait)
    } else {
        wait / SPREAD_PARTS
    }
}

/// Between two tries for a lock without a queue, so that one client that nothing wakes asks at most ten times a second,
/// and mostly twice.
const TRIES_LEAST: Duration = Duration::from_millis(100);

/// How long to wait before the next try for a lock without a queue: until it ends, if that is known to be soon. Otherwise
/// as long as the head of a queue waits for a wake-up, or half a second where releases are not announced.
pub(crate) fn between_tries(remaining: Option<Duration>, is_woken: bool) -> Duration {
    let most = if is_woken { HEAD_MOST } else { UNWOKEN_MOST };
    let by_end = remaining.map_or(most, |rest| rest + JUST_AFTER);
    spread(by_end.clamp(TRIES_LEAST, most), 1)
}

/// In strict mode: how long to wait before asking again during a quarantine. Until it is over and a moment more, so that
/// not all clients ask at once; but an operator may end it sooner.
pub(crate) fn behind_the_gate(seen: &Seen) -> Option<Duration> {
    /// How often a waiter asks during a quarantine, which an operator may end.
    const AT_MOST: Duration = Duration::from_secs(5);
    /// Over how long the waiters ask when a quarantine is over.
    const SPREAD: Duration = Duration::from_millis(250);
    seen.quarantine?;
    let rest = seen.remaining.unwrap_or_default();
    let spread = if rest.is_zero() {
        Duration::ZERO
    } else {
        jittered(SPREAD.min(rest / 4), 100)
    };
    Some(rest.min(AT_MOST) + spread)
}

/// The wait before trying again after the store did not answer: doubling from 20 ms to 500 ms.
pub(crate) fn after_error(failures: u32) -> Duration {
    Duration::from_millis(20 << failures.min(5)).min(Duration::from_millis(500))
}

/// `base`, more or less by at most `percent`, so that many waiters do not move in step.
pub(crate) fn jittered(base: Duration, percent: u8) -> Duration {
    // Every hasher has keys of its own, and makes no system call for them: each waiter asks for a number.
    let random = RandomState::new().hash_one(());
    let span = base * u32::from(percent) / 100;
    let nanos = u64::try_from((span * 2).as_nanos()).unwrap_or(u64::MAX);
    let share = u128::from(nanos) * u128::from(random) / u128::from(u64::MAX);
    base.saturating_sub(span) + Duration::from_nanos(u64::try_from(share).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(remaining_ms: Option<u64>, ours: bool) -> Seen {
        let holder = ours.then(|| "AAAAAAAA".to_owned());
        Seen {
            remaining: remaining_ms.map(Duration::from_millis),
            holder,
            time_us: 0,
            quarantine: None,
        }
    }

    const NEVER: Duration = Duration::MAX;

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// The longest that it is made.
    fn latest(wait: Duration, position: u64) -> Duration {
        let longest = wait + spread_most(wait, position);
        assert!((0..200).all(|_| spread(wait, position) <= longest));
        longest
    }

    fn poll(seen: &Seen, position: u64) -> u128 {
        next_poll(seen, position, true, Duration::from_secs(60)).as_millis()
    }

    #[test]
    fn the_head_polls_just_after_the_lease_ends_and_at_least_every_five_seconds() {
        assert_eq!(poll(&seen(Some(700), true), 1), 701);
        assert_eq!(poll(&seen(Some(60_000), true), 1), 5_000);
        assert_eq!(poll(&seen(None, true), 1), 5_000);
        assert_eq!(poll(&seen(Some(0), true), 1), 2);
    }

    #[test]
    fn behind_a_foreign_holder_or_without_wake_ups_the_head_polls_twice_a_second() {
        assert_eq!(poll(&seen(Some(60_000), false), 1), 500);
        assert_eq!(
            next_poll(&seen(Some(60_000), true), 1, false, Duration::from_secs(60)).as_millis(),
            500
        );
    }

    #[test]
    fn behind_a_foreign_holder_the_nth_waiter_polls_every_n_half_seconds() {
        for rest in [None, Some(0), Some(100), Some(60_000)] {
            let wait = |position| poll(&seen(rest, false), position);
            assert_eq!((wait(2), wait(3), wait(4)), (1_000, 1_500, 2_000));
            assert_eq!((wait(9), wait(10), wait(1_000)), (4_500, 4_545, 4_545));
            assert_eq!(wait(u64::MAX), 13_636);
        }
    }

    #[test]
    fn a_hundred_waiters_behind_a_foreign_holder_make_less_than_thirty_polls_a_second() {
        let each = |position| 1_000_000 / poll(&seen(Some(60_000), false), position);
        let in_a_thousand_seconds: u128 = (1..=100).map(each).sum();
        assert!(in_a_thousand_seconds < 30_000, "{in_a_thousand_seconds}");
    }

    #[test]
    fn however_many_reasons_to_poll_there_are_there_are_nine_in_a_second_at_most() {
        let start = Moment::from_nanos(1_000_000_000);
        let (mut pace, mut now, mut polls) = (RateLimit::default(), start, Vec::new());
        while polls.len() < 200 {
            now = pace.next(now);
            pace.polled(now);
            polls.push(now);
        }
        assert_eq!(polls[0], polls[2], "a few are made at once");
        assert!(polls[3] > polls[2]);
        for window in polls.windows(10) {
            assert!(window[9].saturating_since(window[0]) >= Duration::from_secs(1));
        }
        let rested = now.plus(Duration::from_secs(1));
        assert_eq!(pace.next(rested), rested);
        (0..50).for_each(|_| pace.polled(rested));
        assert_eq!(pace.next(rested), rested.plus(ONE_MORE_EACH));
    }

    #[test]
    fn without_wake_ups_the_others_poll_often_too() {
        let most = Duration::from_secs(60);
        let wait =
            |position| next_poll(&seen(Some(60_000), true), position, false, most).as_millis();
        assert_eq!((wait(2), wait(3), wait(200)), (600, 700, 5_000));
    }

    #[test]
    fn a_queue_polls_at_most_so_often_however_short_the_lease_is() {
        let each = |position| 1_000_000 / poll(&seen(Some(0), true), position);
        let in_a_second = |length| (2..=length).map(each).sum::<u128>() / 1_000;
        let seen = [100, 1_000, 3_000, 10_000].map(in_a_second);
        let most = [45, 245, 480, 1_000];
        assert!(
            seen.iter().zip(most).all(|(seen, most)| *seen < most),
            "{seen:?}"
        );
    }

    #[test]
    fn the_others_poll_a_little_after_the_end_of_the_lease_and_rarely() {
        assert_eq!(poll(&seen(Some(100), true), 2), 1_000);
        assert_eq!(poll(&seen(Some(3_000), true), 3), 3_201);
        assert_eq!(poll(&seen(Some(60_000), true), 7), 4_545);
        assert_eq!(poll(&seen(Some(9_000), true), 3), 4_545);
    }

    /// Every holder passes five seconds at most, and a poll comes before they are over.
    #[test]
    fn behind_a_lease_of_any_length_the_first_thousand_poll_within_five_seconds() {
        for rest in [None, Some(10_000), Some(30_000), Some(3_600_000)] {
            for position in [1, 2, 3, 10, 100, 1_000] {
                let longest = latest(
                    next_poll(&seen(rest, true), position, true, NEVER),
                    position,
                );
                assert!(longest <= millis(5_006), "{rest:?} {position} {longest:?}");
            }
        }
    }

    #[test]
    fn far_behind_the_interval_grows_by_five_milliseconds_for_each_position_up_to_fifteen_seconds()
    {
        let long = seen(Some(3_600_000), true);
        for (position, most) in [
            (1_000, 5_000),
            (2_000, 10_000),
            (3_000, 15_000),
            (u64::MAX, 15_000),
        ] {
            let longest = latest(next_poll(&long, position, true, NEVER), position);
            assert!(
                longest <= millis(most) && longest > millis(most - 10),
                "{position} {longest:?}"
            );
        }
    }

    /// The schedule played out: heads that are frozen are granted a lease of five seconds each, and the one behind them
    /// polls. `polled_before`: how long before the release it polled last.
    fn granted_after(frozen: u64, held: u64, polled_before: u64) -> Duration {
        const PASSED: u64 = 5_000;
        let released = 3_600_000;
        let mut now = released - polled_before;
        let (mut position, mut ends) = (frozen + 1, now + held);
        loop {
            let rest = ends - now;
            let wait = next_poll(&seen(Some(rest), true), position, true, NEVER);
            now += u64::try_from(latest(wait, position).as_millis()).unwrap();
            if now < released {
                ends = now + held; // it is renewed
                continue;
            }
            if position == frozen + 1 {
                // The release has handed it over to the first of them.
                (position, ends) = (position - 1, released + PASSED);
            }
            if now >= ends {
                if position <= 1 {
                    return millis(now - released);
                }
                // A poll hands it over to the next of them.
                (position, ends) = (position - 1, now + PASSED);
            }
        }
    }

    #[test]
    fn each_frozen_head_costs_the_next_one_five_seconds_and_a_margin() {
        for held in [10_000, 30_000, 3_600_000] {
            for polled_before in (0..16_000).step_by(50) {
                let one = granted_after(1, held, polled_before);
                let two = granted_after(2, held, polled_before);
                assert!(one <= millis(5_010), "{held} {polled_before} {one:?}");
                assert!(two <= millis(11_200), "{held} {polled_before} {two:?}");
            }
        }
    }

    #[test]
    fn a_store_can_ask_for_more_polls() {
        assert_eq!(
            next_poll(&seen(Some(60_000), true), 9, true, Duration::from_secs(1)).as_millis(),
            1_000
        );
    }

    #[test]
    fn the_head_is_late_by_milliseconds_only() {
        for _ in 0..1000 {
            let late = spread(Duration::from_secs(5), 1) - Duration::from_secs(5);
            assert!(late <= Duration::from_millis(5), "{late:?}");
            assert!(spread(Duration::from_secs(10), 2) <= Duration::from_secs(11));
        }
    }

    #[test]
    fn pauses_of_the_same_length_are_spread_over_their_share() {
        let pauses: Vec<_> = (0..1000)
            .map(|_| jittered(Duration::from_millis(50), 50).as_millis())
            .collect();
        for eighth in 0..8 {
            let from = 25 + eighth * 6;
            let here = pauses.iter().filter(|ms| (from..from + 6).contains(*ms));
            assert!(here.count() > 50, "{eighth}");
        }
    }

    #[test]
    fn jitter_stays_within_its_share() {
        for _ in 0..1000 {
            let pause = jittered(Duration::from_millis(50), 50);
            assert!((25..=75).contains(&pause.as_millis()), "{pause:?}");
        }
        assert_eq!(
            jittered(Duration::from_millis(50), 0),
            Duration::from_millis(50)
        );
        assert_eq!(jittered(Duration::ZERO, 100), Duration::ZERO);
    }
}
