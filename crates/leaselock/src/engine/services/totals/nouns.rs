//! What is counted of nouns that hold nothing, or that record: by outcome only.

use super::counts::Counts;

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

pub(crate) struct NounTotals {
    /// What callers of work that runs once were told.
    pub(crate) runs: Counts<7>,
    /// What became of ticks that were claimed.
    pub(crate) ticks: Counts<6>,
    /// Permits that were asked of limiters.
    pub(crate) permits: Counts<2>,
    /// Changes of counters.
    pub(crate) changes: Counts<3>,
}

impl Default for NounTotals {
    fn default() -> Self {
        NounTotals {
            runs: Counts::of(&RUNS),
            ticks: Counts::of(&TICKS),
            permits: Counts::of(&PERMITS),
            changes: Counts::of(&CHANGES),
        }
    }
}
