//! Counts of lengths of time, or of shares, by size.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// From a millisecond to two hours, in thousandths of a second.
pub(crate) const TIMES: [u64; 17] = [
    1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000,
    1_800_000, 7_200_000,
];
/// Tenths, in thousandths.
pub(crate) const SHARES: [u64; 9] = [100, 200, 300, 400, 500, 600, 700, 800, 900];

/// Bounds are thousandths, all other numbers millionths.
pub(crate) struct Histogram<const N: usize> {
    bounds: &'static [u64; N],
    counts: [AtomicU64; N],
    /// How many were larger than every bound.
    beyond: AtomicU64,
    sum: AtomicU64,
}

impl<const N: usize> Histogram<N> {
    pub(super) fn of(bounds: &'static [u64; N]) -> Self {
        Histogram {
            bounds,
            counts: array::from_fn(|_| AtomicU64::new(0)),
            beyond: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }

    pub(super) fn add(&self, millionths: u64) {
        let is_below = |bound: &u64| bound * 1_000 < millionths;
        let at = self.bounds.partition_point(is_below);
        let count = self.counts.get(at).unwrap_or(&self.beyond);
        count.fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(millionths, Ordering::Relaxed);
    }

    pub(super) fn add_time(&self, time: Duration) {
        self.add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// Returns each bound with how many were at most that large, how many there were, and their sum.
    pub(crate) fn snapshot(&self) -> (Vec<(u64, u64)>, u64, u64) {
        let mut count = 0;
        let each = self.bounds.iter().zip(&self.counts);
        let buckets = each.map(|(bound, one)| {
            count += one.load(Ordering::Relaxed);
            (bound * 1_000, count)
        });
        let buckets = buckets.collect();
        let count = count + self.beyond.load(Ordering::Relaxed);
        (buckets, count, self.sum.load(Ordering::Relaxed))
    }
}
