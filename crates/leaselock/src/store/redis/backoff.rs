//! The pause before the next request to a server after a failure.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(1);

/// A back-off that doubles from 20 ms to 1 s, with jitter, so that many clients do not retry at once.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns the pause after one more failure: between half and all of the step.
    pub(super) fn next(&mut self) -> Duration {
        let step = FIRST
            .saturating_mul(1 << self.failures.min(10))
            .min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        jittered(step)
    }
}

/// Returns between half and all of a pause.
pub(super) fn jittered(pause: Duration) -> Duration {
    // Without a random source there is no jitter, which is no reason to fail.
    pause / 2 + part(pause / 2, getrandom::u32().unwrap_or(u32::MAX))
}

/// Returns `share` of 2³² of a duration.
fn part(of: Duration, share: u32) -> Duration {
    let nanos = (of.as_nanos() * u128::from(share)) >> 32;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_second_and_begin_anew_after_a_reset() {
        let mut backoff = Backoff::default();
        for step in [20, 40, 80, 160, 320, 640, 1000, 1000].map(Duration::from_millis) {
            let pause = backoff.next();
            assert!(step / 2 <= pause && pause <= step, "{pause:?} of {step:?}");
        }
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }
}
