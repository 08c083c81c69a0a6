//! An acquisition that has not ended, as it is counted.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracing::Span;
use tracing::field::Empty;

use super::hold::CountedHold;
use super::kind_totals::{CANCELLED, GRANTED, KindTotals, outcome};
use crate::base::error::AcquireError;
use crate::base::{Clock, Moment};

/// Counts how an acquisition ends; one that is dropped was cancelled.
#[must_use = "dropping it counts a cancelled acquisition"]
pub(crate) struct Acquiring<'a> {
    clock: &'a Clock,
    began: Moment,
    totals: Option<&'a Arc<KindTotals>>,
    pub(crate) span: Span,
}

impl<'a> Acquiring<'a> {
    pub(crate) fn begin(clock: &'a Clock, lock: &str, totals: Option<&'a Arc<KindTotals>>) -> Self {
        if let Some(totals) = totals {
            totals.begun.fetch_add(1, Ordering::Relaxed);
        }
        Acquiring {
            clock,
            began: clock.now(),
            span: tracing::debug_span!(
                target: "leaselock", "acquire", lock,
                kind = totals.map(|it| it.kind), class = totals.map(|it| &*it.class),
                outcome = Empty, waited_ms = Empty,
            ),
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
            let outcome = match &acquired {
                Ok(lease) => {
                    totals.waits.add_time(now.saturating_since(self.began));
                    count_hold(lease, &|| CountedHold::begin(totals, now));
                    GRANTED
                }
                Err(error) => outcome(error),
            };
            totals.acquires.add(outcome);
            self.describe(outcome, now);
        }
        acquired
    }

    /// Ends one that was no acquisition in the end: its caller got the result of another.
    pub(crate) fn end_untold(mut self) {
        if let Some(totals) = self.totals.take() {
            totals.begun.fetch_sub(1, Ordering::Relaxed);
            self.describe("not_begun", self.clock.now());
        }
    }

    fn describe(&self, outcome: &str, now: Moment) {
        let waited = now.saturating_since(self.began);
        self.span.record("outcome", outcome);
        self.span.record("waited_ms", waited.as_millis());
    }
}

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        if let Some(totals) = self.totals {
            totals.acquires.add(CANCELLED);
            self.describe(CANCELLED, self.clock.now());
        }
    }
}
