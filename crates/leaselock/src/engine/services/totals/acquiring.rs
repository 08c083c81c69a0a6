//! An acquisition that has not ended, as it is counted.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::hold::CountedHold;
use super::kind_totals::{CANCELLED, GRANTED, KindTotals, outcome};
use crate::base::clock::{Clock, Moment};
use crate::base::error::AcquireError;

/// Counts how an acquisition ends; one that is dropped was cancelled.
#[must_use = "dropping it counts a cancelled acquisition"]
pub(crate) struct Acquiring<'a> {
    clock: &'a Clock,
    began: Moment,
    totals: Option<&'a Arc<KindTotals>>,
}

impl<'a> Acquiring<'a> {
    pub(crate) fn begin(clock: &'a Clock, totals: Option<&'a Arc<KindTotals>>) -> Self {
        if let Some(totals) = totals {
            totals.begun.fetch_add(1, Ordering::Relaxed);
        }
        Acquiring {
            clock,
            began: clock.now(),
            totals,
        }
    }

    /// Counts how it ended. `count_hold` gets what counts the hold of a lease that was granted.
    pub(crate) fn end<L>(
        mut self,
        acquired: Result<L, AcquireError>,
        count_hold: impl FnOnce(&L, &dyn Fn() -> Arc<CountedHold>),
    ) -> Result<L, AcquireError> {
        if let Some(totals) = self.totals.take() {
            let now = self.clock.now();
            match &acquired {
                Ok(lease) => {
                    totals.waits.add_time(now.saturating_since(self.began));
                    count_hold(lease, &|| CountedHold::begin(totals, now));
                    totals.acquires.add(GRANTED);
                }
                Err(error) => totals.acquires.add(outcome(error)),
            }
        }
        acquired
    }

    /// Ends one that was no acquisition in the end: its caller got the result of another.
    pub(crate) fn end_untold(mut self) {
        if let Some(totals) = self.totals.take() {
            totals.begun.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        if let Some(totals) = self.totals {
            totals.acquires.add(CANCELLED);
        }
    }
}
