//! Polls of waiters that are far from the head of a queue in a folder.
//!
//! Each call reads all of the lock's file, so a poll costs more the longer the queue is, and a long queue has many who
//! poll. A waiter that is far from the head therefore polls in three steps, each only when the one before has found a
//! reason: it asks how often the file was written, which costs the same whatever is in it; it reads its position, for
//! which it neither locks nor writes the file; and it makes the request that got it into the queue. Whether it is alive
//! is told by the system, so the file need not say that it has polled.

use std::time::Duration;

use crate::base::Moment;
use crate::store::Traffic;

/// Up to this position every poll is a full request. It locks and writes the file, so only those who may soon be the
/// next make it. When no waiter has written for half a minute, the script of the second step asks for a full request.
pub(super) const NEAR: u64 = 2;
/// Up to this position a waiter may soon be the next, and asks as often as the store wants.
pub(super) const SOON: u64 = 32;
/// All waiters together read the file twenty times a second: each waits so long for each byte of it,
const PER_BYTE: Duration = Duration::from_micros(200);
/// and no longer than this, in case thousands in front of it were killed at once.
const LONGEST: Duration = Duration::from_secs(300);

/// What a waiter that is far from the head knows of the file since its latest answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Far {
    pub(super) position: u64,
    pub(super) commits: u64,
    pub(super) at: Moment,
}

impl Far {
    /// One of those in front leaves with a commit, as a rule: the waiter rests until it may be near the head, or until
    /// half of them may be gone.
    pub(super) fn may_rest(&self, now: Moment, traffic: Traffic) -> bool {
        let Some(since) = traffic.commits.checked_sub(self.commits) else {
            return false; // another file
        };
        let at_most = PER_BYTE.saturating_mul(u32::try_from(traffic.bytes).unwrap_or(u32::MAX));
        let few = (self.position / 2).max(self.position.saturating_sub(SOON));
        since < few && now.saturating_since(self.at) < at_most.min(LONGEST)
    }
}

/// A store that asks for more polls asks those for them who may soon be the next.
pub(super) fn polls_at_least_each(look_every: Duration, position: u64) -> Duration {
    let share = u32::try_from(position / SOON).unwrap_or(u32::MAX);
    look_every.saturating_mul(share.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn far() -> (Far, Moment) {
        let at = Moment::from_nanos(1);
        let far = Far {
            position: 1_000,
            commits: 7,
            at,
        };
        (far, at)
    }

    fn traffic(commits: u64, bytes: u64) -> Traffic {
        Traffic { commits, bytes }
    }

    #[test]
    fn a_far_waiter_rests_longer_the_more_a_poll_costs_and_never_for_more_than_five_minutes() {
        let (far, at) = far();
        for (bytes, rests) in [
            (5_000, 1),
            (500_000, 100),
            (1_500_000, 300),
            (5_000_000_000, 300),
        ] {
            let rests = rests * SECOND;
            let before = at.plus(rests - Duration::from_millis(1));
            assert!(far.may_rest(before, traffic(7, bytes)), "{bytes}");
            assert!(!far.may_rest(at.plus(rests), traffic(7, bytes)), "{bytes}");
        }
    }

    #[test]
    fn a_far_waiter_polls_when_it_may_be_near_or_half_of_those_in_front_gone_or_the_file_is_another()
     {
        let (far, at) = far();
        let now = at.plus(SECOND);
        assert!(far.may_rest(now, traffic(7 + 967, 500_000)));
        assert!(!far.may_rest(now, traffic(7 + 968, 500_000)));
        assert!(!far.may_rest(now, traffic(6, 500_000)));
        let near = Far {
            position: 40,
            ..far
        };
        assert!(near.may_rest(now, traffic(7 + 19, 500_000)));
        assert!(!near.may_rest(now, traffic(7 + 20, 500_000)));
    }

    #[test]
    fn who_may_soon_be_the_next_polls_as_often_as_the_store_asks() {
        let each = |position| polls_at_least_each(SECOND, position).as_secs();
        assert_eq!((each(1), each(63), each(64), each(3_200)), (1, 1, 2, 100));
        let never = polls_at_least_each(Duration::MAX, 3_200);
        assert_eq!(never, Duration::MAX);
    }
}
