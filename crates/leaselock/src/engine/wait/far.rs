//! Polls of waiters that are far from the head of a queue in a folder.
//!
//! Each call reads all of the lock's file, so a poll costs more the longer the queue is, and a long queue has many who
//! poll. A waiter that is far from the head therefore polls in three steps, each only when the one before has found a
//! reason: it asks how often the file was written, which costs the same whatever is in it; it reads its position, for
//! which it neither locks nor writes the file; and it makes the request that got it into the queue. Whether it is alive
//! is told by the system, so nobody needs to read there that it has polled.

use std::time::Duration;

use super::acquire::{Acquisition, Outcome};
use super::grant_deadline::ClockSample;
use super::progress::Progress;
use crate::base::clock::Moment;
use crate::base::error::StoreError;
use crate::engine::position::{Position, Stands};
use crate::store::Traffic;

/// Up to this position every poll is a full request, which keeps the queue from ending.
const NEAR: u64 = 32;
/// All waiters together read the file twenty times a second: each waits so long for each byte of it,
const PER_BYTE: Duration = Duration::from_micros(200);
/// and no longer than this, in case thousands in front of it were killed at once.
const LONGEST: Duration = Duration::from_secs(300);

/// What a waiter that is far from the head knows of the file since its latest answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Far {
    position: u64,
    commits: u64,
    at: Moment,
}

impl Far {
    /// Half of those in front can hardly be gone, since few leave with each commit.
    fn may_rest(&self, now: Moment, traffic: Traffic) -> bool {
        let Some(since) = traffic.commits.checked_sub(self.commits) else {
            return false; // another file
        };
        let at_most = PER_BYTE.saturating_mul(u32::try_from(traffic.bytes).unwrap_or(u32::MAX));
        since < self.position / 2 && now.saturating_since(self.at) < at_most.min(LONGEST)
    }
}

/// A store that asks for more polls asks those for them who may soon be the next.
pub(super) fn polls_at_least_each(look_every: Duration, position: u64) -> Duration {
    let share = u32::try_from(position / NEAR).unwrap_or(u32::MAX);
    look_every.saturating_mul(share.max(1))
}

impl Acquisition<'_> {
    /// A request of a waiter, or as little of it as will do.
    pub(super) async fn poll(
        &self,
        so_far: &mut Progress,
        waits: bool,
        channel: &str,
        t0: Moment,
        within: Duration,
    ) -> Result<Outcome, StoreError> {
        let far = so_far.far.filter(|_| waits && !channel.is_empty());
        if let Some(far) = far {
            if let Some(outcome) = self.as_before(far, so_far) {
                return Ok(outcome);
            }
            if let Some(outcome) = Box::pin(self.position(channel, t0, within)).await? {
                so_far.far = self.far(&outcome);
                return Ok(outcome);
            }
        }
        so_far.far = None;
        let outcome = self.request(waits, channel, t0, within).await?;
        so_far.far = self.far(&outcome);
        Ok(outcome)
    }

    fn far(&self, outcome: &Outcome) -> Option<Far> {
        let Outcome::Waiting(_, position, reading) = outcome else {
            return None;
        };
        if *position <= NEAR {
            return None;
        }
        let traffic = self.engine.store.traffic(&self.keys.lock)?;
        Some(Far {
            position: *position,
            commits: traffic.commits,
            at: reading.received,
        })
    }

    /// The latest answer, while a new one would hardly say anything else.
    fn as_before(&self, far: Far, so_far: &Progress) -> Option<Outcome> {
        let (reading, mut seen) = (so_far.reading?, so_far.seen.clone()?);
        let now = self.engine.clock.now();
        let traffic = self.engine.store.traffic(&self.keys.lock)?;
        if !far.may_rest(now, traffic) {
            return None;
        }
        let since = now.saturating_since(reading.received);
        seen.remaining = seen.remaining.map(|rest| rest.saturating_sub(since));
        Some(Outcome::Waiting(seen, far.position, reading))
    }

    async fn position(
        &self,
        channel: &str,
        t0: Moment,
        within: Duration,
    ) -> Result<Option<Outcome>, StoreError> {
        let era = self.era();
        let store = self.lane.unwrap_or(&self.engine.store);
        let acquire = self.asks(true, channel);
        let Stands::At { seen, place } = store.ask_one(&Position(&acquire), within).await? else {
            return Ok(None);
        };
        let received = self.engine.clock.now();
        self.engine.note_time(t0, received, seen.time_us);
        let reading = ClockSample {
            sent: t0,
            received,
            server_us: seen.time_us,
            era: era.answered_over(self.era().connection),
        };
        Ok(Some(Outcome::Waiting(seen, place, reading)))
    }
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
    fn a_far_waiter_polls_when_half_of_those_in_front_may_be_gone_or_the_file_is_another() {
        let (far, at) = far();
        let now = at.plus(SECOND);
        assert!(far.may_rest(now, traffic(506, 500_000)));
        assert!(!far.may_rest(now, traffic(507, 500_000)));
        assert!(!far.may_rest(now, traffic(6, 500_000)));
    }

    #[test]
    fn who_may_soon_be_the_next_polls_as_often_as_the_store_asks() {
        let each = |position| polls_at_least_each(SECOND, position).as_secs();
        assert_eq!((each(1), each(63), each(64), each(3_200)), (1, 1, 2, 100));
        let never = polls_at_least_each(Duration::MAX, 3_200);
        assert_eq!(never, Duration::MAX);
    }
}
