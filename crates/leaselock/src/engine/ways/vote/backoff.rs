//! When a waiter of a quorum votes again.

use std::time::Duration;

use super::round::LostRound;
use crate::engine::ways::schedule;

/// Why a waiter behind a holder votes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PollReason {
    /// The nodes wake it.
    Wakeup,
    /// The nodes could wake it, but its latest request did not ask for that: the next one does.
    Registration,
    /// No message arrives.
    Timer,
}

/// How long to wait for the next round.
#[derive(Debug, Default)]
pub(super) struct RoundBackoff {
    /// The longest that the latest pause after a split could have been.
    latest: Duration,
    /// How long it stood back for others.
    stood_back: Duration,
}

/// A waiter that got votes tries again soon: there are fewer such waiters than nodes.
const SPLIT_LEAST: Duration = Duration::from_millis(2);
const SPLIT_MOST: Duration = Duration::from_millis(200);
/// A waiter that got none leaves the others time to settle it, and more of it when they have not.
const NONE_OF_THEM: Duration = Duration::from_millis(75);
const NONE_MOST: Duration = Duration::from_millis(600);
/// Those who wait for the same lease to end do not vote in step.
const AT_THE_END: Duration = Duration::from_millis(25);

impl RoundBackoff {
    /// `took`: so long the votes were kept from others, and so they are most likely to be had when the pauses differ by
    /// more.
    pub(super) fn after(
        &mut self,
        lost: &LostRound,
        reason: PollReason,
        took: Duration,
    ) -> Duration {
        if lost.held {
            *self = RoundBackoff::default();
            if reason == PollReason::Registration {
                return Duration::ZERO;
            }
            let is_woken = reason == PollReason::Wakeup;
            let by_timer = schedule::next_poll(&lost.seen, 1, is_woken, Duration::MAX);
            return by_timer
                + schedule::jittered(AT_THE_END, 100)
                + schedule::jittered(by_timer / 20, 100);
        }
        if lost.ours == 0 {
            let pause = (self.stood_back * 2).clamp(NONE_OF_THEM, NONE_MOST);
            self.stood_back = pause;
            return schedule::jittered(pause, 90);
        }
        // Grows with what it was, so that those who meet again spread more and more.
        let most = (self.latest * 3)
            .clamp(SPLIT_LEAST * 2, SPLIT_MOST)
            .max(took * 4);
        self.latest = schedule::jittered(most / 2, 100).max(SPLIT_LEAST);
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::values::grant::Seen;

    fn lost(held: bool, ours: usize, remaining_ms: u64, ours_holds: bool) -> LostRound {
        LostRound {
            held,
            ours,
            seen: Seen {
                remaining: Some(Duration::from_millis(remaining_ms)),
                holder: ours_holds.then(|| "AAAAAAAA".to_owned()),
                time_us: 0,
                quarantine: None,
            },
        }
    }

    #[test]
    fn behind_a_holder_a_waiter_votes_when_the_lease_ends_and_at_least_every_five_seconds() {
        for _ in 0..200 {
            let mut backoff = RoundBackoff::default();
            let soon = backoff
                .after(
                    &lost(true, 0, 1_000, true),
                    PollReason::Wakeup,
                    Duration::ZERO,
                )
                .as_millis();
            assert!((1_001..=1_152).contains(&soon), "{soon}");
            let late = backoff
                .after(
                    &lost(true, 0, 60_000, true),
                    PollReason::Wakeup,
                    Duration::ZERO,
                )
                .as_millis();
            assert!((5_000..=5_551).contains(&late), "{late}");
            let first = lost(true, 0, 60_000, true);
            assert!(
                backoff
                    .after(&first, PollReason::Registration, Duration::ZERO)
                    .is_zero()
            );
            let foreign = backoff
                .after(
                    &lost(true, 0, 60_000, false),
                    PollReason::Wakeup,
                    Duration::ZERO,
                )
                .as_millis();
            assert!((500..=601).contains(&foreign), "{foreign}");
        }
    }

    #[test]
    fn after_a_split_a_waiter_with_votes_tries_again_soon_and_more_and_more_spread() {
        for _ in 0..200 {
            let mut backoff = RoundBackoff::default();
            let split = lost(false, 1, 10_000, true);
            assert!(
                backoff.after(&split, PollReason::Wakeup, Duration::ZERO)
                    <= Duration::from_millis(4)
            );
            let longest = (0..50)
                .map(|_| backoff.after(&split, PollReason::Wakeup, Duration::ZERO))
                .max()
                .unwrap();
            assert!(longest <= SPLIT_MOST, "{longest:?}");
            assert!(
                !RoundBackoff::default()
                    .after(&split, PollReason::Registration, Duration::ZERO)
                    .is_zero()
            );
            let none = RoundBackoff::default().after(
                &lost(false, 0, 10_000, true),
                PollReason::Wakeup,
                Duration::ZERO,
            );
            assert!(none >= Duration::from_millis(7), "{none:?}");
        }
    }
}
