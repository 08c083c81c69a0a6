//! What a client counts of runs, ticks, limiters, counters, latches and barriers.

use std::sync::atomic::AtomicU64;

use crate::base::counters::{Counts, Histogram, TIMES};

const RUNS: [&str; 7] = [
    "ran",
    "replayed",
    "failed",
    "crashed",
    "given_up",
    "differs",
    "unrecorded",
];
const TICKS: [&str; 6] = ["run", "over", "overlap", "missed", "stale", "unrecorded"];
const PERMITS: [&str; 2] = ["allowed", "limited"];
const CHANGES: [&str; 3] = ["counted", "refused", "unknown"];
const ARRIVALS: [&str; 2] = ["latch", "barrier"];

/// The counts that are of no kind of lock.
pub(crate) struct NounTotals {
    pub(crate) runs: Counts<7>,
    pub(crate) ticks: Counts<6>,
    /// How late ticks were begun.
    pub(crate) delays: Histogram<17>,
    /// That were asked of limiters.
    pub(crate) permits: Counts<2>,
    /// Of counters.
    pub(crate) changes: Counts<3>,
    pub(crate) arrivals: Counts<2>,
    /// Of barriers.
    pub(crate) generations: AtomicU64,
}

impl Default for NounTotals {
    fn default() -> Self {
        NounTotals {
            runs: Counts::of(&RUNS),
            ticks: Counts::of(&TICKS),
            permits: Counts::of(&PERMITS),
            changes: Counts::of(&CHANGES),
            delays: Histogram::of(&TIMES),
            arrivals: Counts::of(&ARRIVALS),
            generations: AtomicU64::new(0),
        }
    }
}
