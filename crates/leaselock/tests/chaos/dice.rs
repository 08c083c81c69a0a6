//! Numbers that look random, and are the same for the same seed.

use std::time::Duration;

/// Numbers of one seed.
#[derive(Debug, Clone)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end
    }

    pub(crate) fn millis(&mut self, end: u64) -> Duration {
        Duration::from_millis(self.below(end))
    }

    /// So many of the numbers below `end`, in any order.
    #[cfg(feature = "embedded")]
    pub(crate) fn some(&mut self, count: u64, end: u64) -> Vec<u64> {
        let mut numbers: Vec<u64> = (0..end).collect();
        for at in (1..numbers.len()).rev() {
            let other = self.below(at as u64 + 1);
            numbers.swap(at, usize::try_from(other).unwrap());
        }
        numbers.truncate(usize::try_from(count).unwrap());
        numbers
    }
}
