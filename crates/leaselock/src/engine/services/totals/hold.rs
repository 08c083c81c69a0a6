//! A lease that is held, as it is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::kind_totals::{KindTotals, loss};
use crate::base::Moment;
use crate::base::error::LostReason;

/// The records of several names share one: the first of them that ends is the end of the lease.
pub(crate) struct CountedHold {
    pub(crate) totals: Arc<KindTotals>,
    since: Moment,
    is_over: AtomicBool,
}

impl CountedHold {
    pub(super) fn begin(totals: &Arc<KindTotals>, since: Moment) -> Arc<Self> {
        totals.held.fetch_add(1, Ordering::Relaxed);
        Arc::new(CountedHold {
            totals: Arc::clone(totals),
            since,
            is_over: AtomicBool::new(false),
        })
    }

    pub(crate) fn end(&self, now: Moment, reason: LostReason) {
        if self.is_over.swap(true, Ordering::Relaxed) {
            return;
        }
        self.totals.holds.add_time(now.saturating_since(self.since));
        if let Some(reason) = loss(reason) {
            self.totals.losses.add(reason);
        }
    }
}

impl Drop for CountedHold {
    /// A lease whose record is gone is held no more.
    fn drop(&mut self) {
        if !*self.is_over.get_mut() {
            self.totals.held.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
