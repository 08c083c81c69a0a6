//! Names that were contended lately. Their requests are sent alone: a batch serves only what is granted at once, so a
//! contended name would cost one call more. A name that only readers hold is not contended for a read.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::base::Moment;

/// How long a name counts as contended after it was last found contended.
const REMEMBERED: Duration = Duration::from_secs(1);
/// Names share cells by their hash. A name that shares the cell of a contended one is sent alone, which is never wrong.
const CELLS: usize = 512;

#[derive(Debug)]
pub(crate) struct ContentionFilter {
    /// When a name of each cell was last found contended, in nanoseconds; 0 for never.
    found: Box<[AtomicU64]>,
    hasher: RandomState,
}

impl Default for ContentionFilter {
    fn default() -> Self {
        ContentionFilter {
            found: (0..CELLS).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl ContentionFilter {
    fn cell(&self, lock: &str) -> &AtomicU64 {
        let hash = usize::try_from(self.hasher.hash_one(lock) % CELLS as u64).unwrap_or(0);
        &self.found[hash]
    }

    pub(crate) fn note(&self, lock: &str, now: Moment) {
        self.cell(lock).store(now.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn contains(&self, lock: &str, now: Moment) -> bool {
        let found = self.cell(lock).load(Ordering::Relaxed);
        found != 0 && now.saturating_since(Moment::from_nanos(found)) < REMEMBERED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_contended_for_a_second_after_it_was_found_so() {
        let contended = ContentionFilter::default();
        let at = Moment::from_nanos(5_000_000_000);
        assert!(!contended.contains("job", at));
        contended.note("job", at);
        assert!(contended.contains("job", at.plus(Duration::from_millis(999))));
        assert!(!contended.contains("job", at.plus(REMEMBERED)));
    }
}
