//! What is counted with: counters of outcomes, histograms, and a list of them that only grows.

use std::array;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Tasks that add at the same time agree on one order: each goes on behind what another has put into its place.
pub(crate) struct Chain<T>(OnceLock<Box<(T, Chain<T>)>>);

impl<T> Default for Chain<T> {
    fn default() -> Self {
        Chain(OnceLock::new())
    }
}

impl<T> Chain<T> {
    /// Returns the value that fits, and adds it when there is none. `None`: there are `most` others already.
    pub(crate) fn find(
        &self,
        most: usize,
        fits: impl Fn(&T) -> bool,
        make: impl Fn() -> T,
    ) -> Option<&T> {
        let mut place = self;
        for _ in 0..most {
            let (value, next) = &**place.0.get_or_init(|| Box::new((make(), Chain::default())));
            if fits(value) {
                return Some(value);
            }
            place = next;
        }
        None
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let all = std::iter::successors(self.0.get(), |entry| entry.1.0.get());
        all.map(|entry| &entry.0)
    }
}

/// One counter for each value of a label. All of them exist from the beginning: an increase of a series that appears as 1
/// is none for who reads it.
pub(crate) struct Counts<const N: usize> {
    labels: &'static [&'static str; N],
    counts: [AtomicU64; N],
}

impl<const N: usize> Counts<N> {
    pub(crate) fn of(labels: &'static [&'static str; N]) -> Self {
        let counts = array::from_fn(|_| AtomicU64::new(0));
        Counts { labels, counts }
    }

    pub(crate) fn add(&self, label: &str) {
        self.add_many(label, 1);
    }

    pub(crate) fn add_many(&self, label: &str, many: u64) {
        let mut each = self.labels.iter().zip(&self.counts);
        if let Some((_, count)) = each.find(|(one, _)| **one == label) {
            count.fetch_add(many, Ordering::Relaxed);
        }
    }

    pub(crate) fn snapshot(&self) -> BTreeMap<&'static str, u64> {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = self.counts.iter().map(load);
        self.labels.iter().copied().zip(counts).collect()
    }
}

/// From a tenth of a millisecond to a second, in microseconds.
pub(crate) const REQUEST_TIMES: [u64; 13] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000,
];
/// From a millisecond to two hours, in microseconds.
#[rustfmt::skip]
pub(crate) const TIMES: [u64; 17] = [
    1_000, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000,
    30_000_000, 60_000_000, 300_000_000, 1_800_000_000, 7_200_000_000,
];
/// Tenths, in millionths.
#[rustfmt::skip]
pub(crate) const SHARES: [u64; 9] =
    [100_000, 200_000, 300_000, 400_000, 500_000, 600_000, 700_000, 800_000, 900_000];

/// All numbers are millionths.
pub(crate) struct Histogram<const N: usize> {
    bounds: &'static [u64; N],
    counts: [AtomicU64; N],
    /// How many were larger than every bound.
    beyond: AtomicU64,
    sum: AtomicU64,
}

impl<const N: usize> Histogram<N> {
    pub(crate) fn of(bounds: &'static [u64; N]) -> Self {
        Histogram {
            bounds,
            counts: array::from_fn(|_| AtomicU64::new(0)),
            beyond: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }

    pub(crate) fn add(&self, millionths: u64) {
        let at = self.bounds.partition_point(|bound| *bound < millionths);
        let count = self.counts.get(at).unwrap_or(&self.beyond);
        count.fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(millionths, Ordering::Relaxed);
    }

    pub(crate) fn add_time(&self, time: Duration) {
        self.add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// Returns each bound with how many were at most that large, how many there were, and their sum.
    pub(crate) fn snapshot(&self) -> (Vec<(u64, u64)>, u64, u64) {
        let mut count = 0;
        let each = self.bounds.iter().zip(&self.counts);
        let buckets = each.map(|(bound, one)| {
            count += one.load(Ordering::Relaxed);
            (*bound, count)
        });
        let buckets = buckets.collect();
        let count = count + self.beyond.load(Ordering::Relaxed);
        (buckets, count, self.sum.load(Ordering::Relaxed))
    }
}
