//! What a caller that goes away leaves to the cleanup.

use super::{Cleanup, PendingCleanup};
use crate::base::Moment;

/// Queues a cleanup when it is dropped, unless it was disarmed.
///
/// The caller creates it before it sends a request, so that no drop, panic or error in between leaves a lock behind.
#[derive(Debug)]
pub(crate) struct CleanupGuard {
    cleanup: Cleanup,
    pending: Option<PendingCleanup>,
}

impl CleanupGuard {
    pub(crate) fn new(cleanup: Cleanup, pending: PendingCleanup) -> Self {
        cleanup.0.counters.remember_release(&pending);
        CleanupGuard {
            cleanup,
            pending: Some(pending),
        }
    }

    /// Sets the moment by which what may exist on the server has expired.
    pub(crate) fn lasts_until(&mut self, until: Moment) {
        if let Some(pending) = &mut self.pending {
            pending.until = pending.until.max(until);
        }
    }

    /// Notes that the store confirmed the queue entry.
    pub(crate) fn set_queued(&mut self) {
        if let Some(pending) = &mut self.pending {
            pending.queued = true;
        }
    }

    /// Disarms the guard: the store never had it, or the lease has an owner now. True if it was in the queue.
    pub(crate) fn settle(mut self) -> bool {
        self.pending.take().is_some_and(|pending| pending.queued)
    }

    /// Drops the guard if the store may have it, and disarms it otherwise.
    pub(crate) fn settle_unless(self, may_exist: bool) {
        if !may_exist {
            self.settle();
        }
    }

    /// Disarms the guard: the store confirmed the end.
    pub(crate) fn end(mut self) {
        if let Some(pending) = self.pending.take() {
            self.cleanup.0.counters.remember_acquisition(&pending);
        }
    }
}

impl Drop for CleanupGuard {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.cleanup.take(pending);
        }
    }
}
