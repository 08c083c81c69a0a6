//! Counters of one metric, by the value of a label.

use std::array;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// One counter for each value of a label. All of them exist from the beginning: an increase of a series that appears as 1
/// is none for who reads it.
pub(crate) struct Counts<const N: usize> {
    labels: &'static [&'static str; N],
    counts: [AtomicU64; N],
}

impl<const N: usize> Counts<N> {
    pub(super) fn of(labels: &'static [&'static str; N]) -> Self {
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
        let counts = self
            .counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed));
        self.labels.iter().copied().zip(counts).collect()
    }
}
