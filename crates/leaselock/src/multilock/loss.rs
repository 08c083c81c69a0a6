//! The loss of one of several leases.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::base::error::Lost;
use crate::engine::services::lease::loss::LossWatch;

/// A future that resolves when the first lease of a [`MultiLease`](crate::multilock::MultiLease) ends, and says which and why.
///
/// [`check`](MultiLossWatch::check) tests without awaiting. Clones are independent and `'static`. Each lease is watched
/// as by a [`LossWatch`].
///
/// # Cancel safety
/// Dropping it and calling `lost` again loses nothing: a loss stays.
#[derive(Clone)]
#[must_use = "dropping it stops nothing when a lease is lost: await it beside the work, or call `check`"]
pub struct MultiLossWatch(Vec<LossWatch>);

impl MultiLossWatch {
    pub(super) fn new(leases: impl Iterator<Item = LossWatch>) -> Self {
        MultiLossWatch(leases.collect())
    }

    /// True if one of the leases has ended. Reads the clock, so it is exact even when no other code runs.
    pub fn is_lost(&self) -> bool {
        self.0.iter().any(LossWatch::is_lost)
    }

    /// Returns `Err` with the name and the reason once one of the leases has ended: for loops, with `?`.
    ///
    /// # Errors
    /// [`Lost`]: stop work on what the leases protect.
    pub fn check(&self) -> Result<(), Lost> {
        self.0.iter().try_for_each(LossWatch::check)
    }
}

impl fmt::Debug for MultiLossWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

impl Future for MultiLossWatch {
    type Output = Lost;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Lost> {
        for watch in &mut self.0 {
            if let Poll::Ready(lost) = Pin::new(watch).poll(cx) {
                return Poll::Ready(lost);
            }
        }
        Poll::Pending
    }
}
