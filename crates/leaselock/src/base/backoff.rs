//! Pauses between tries, which grow from failure to failure.

use std::time::Duration;

/// A sequence of pauses in milliseconds; the last one repeats.
#[derive(Debug)]
pub(crate) struct Backoff {
    pauses_ms: &'static [u64],
    failures: usize,
}

impl Backoff {
    pub(crate) const fn new(pauses_ms: &'static [u64]) -> Self {
        Backoff {
            pauses_ms,
            failures: 0,
        }
    }

    /// Begins anew, after a success.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns between half and all of the pause after one more failure, so that many clients do not retry at once.
    pub(crate) fn next_jittered(&mut self) -> Duration {
        let half = self.next() / 2;
        // Without a random source there is no jitter, which is no reason to fail.
        let share = u128::from(getrandom::u32().unwrap_or(u32::MAX));
        let nanos = (half.as_nanos() * share) >> 32;
        half + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the pause after one more failure.
    pub(crate) fn next(&mut self) -> Duration {
        let ms = self.pauses_ms.get(self.failures);
        self.failures = self.failures.saturating_add(1);
        Duration::from_millis(*ms.or(self.pauses_ms.last()).unwrap_or(&0))
    }
}

/// Doubles from 20 ms to a second: the pauses between two attempts to connect.
impl Default for Backoff {
    fn default() -> Self {
        Backoff::new(&[20, 40, 80, 160, 320, 640, 1000])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_second_and_begin_anew_after_a_reset() {
        let mut backoff = Backoff::default();
        for step in [20, 40, 80, 160, 320, 640, 1000, 1000].map(Duration::from_millis) {
            let pause = backoff.next_jittered();
            assert!(step / 2 <= pause && pause <= step, "{pause:?} of {step:?}");
        }
        backoff.reset();
        assert_eq!(backoff.next(), Duration::from_millis(20));
    }
}
