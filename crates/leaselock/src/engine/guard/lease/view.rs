//! A lease as tasks other than its owner see it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::{Fence, Name, Sequencer};

use crate::base::clock::Moment;
use crate::base::error::LostReason;
use crate::engine::services::lease::loss::LossWatch;
use crate::engine::services::lease::record::LeaseRecord;

/// Whether a lease can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseState {
    /// It is held.
    Held,
    /// It is held, but the latest renewal failed: get ready to stop.
    Suspect,
    /// It is no longer held.
    Lost(LostReason),
}

/// A read-only view of a lease: it cannot extend or release. Clones are cheap and `'static`, and keep no lease alive.
#[derive(Clone)]
pub struct LeaseView {
    record: Arc<LeaseRecord>,
}

impl LeaseView {
    pub(crate) fn new(record: Arc<LeaseRecord>) -> Self {
        LeaseView { record }
    }

    /// Returns the name that the lease protects.
    pub fn name(&self) -> &Name {
        &self.record.name
    }

    /// Returns the fencing token; `None` without fencing.
    pub fn fence(&self) -> Option<Fence> {
        self.record.fence
    }

    /// Returns what the holder shows to the resource that the lease protects; `None` without fencing.
    pub fn sequencer(&self) -> Option<Sequencer> {
        self.record.sequencer()
    }

    /// Returns until when the holder may act, unless the lease is extended.
    pub fn deadline(&self) -> Moment {
        self.record.core().deadline()
    }

    /// Returns whether the lease is held, suspect or lost.
    pub fn state(&self) -> LeaseState {
        match self.record.lost_by_now() {
            Some(lost) => LeaseState::Lost(lost.reason),
            None if self.record.core().is_suspect() => LeaseState::Suspect,
            None => LeaseState::Held,
        }
    }

    /// Returns how long the holder may still act, unless the lease is extended; zero when it is lost.
    pub fn remaining(&self) -> Duration {
        if self.record.lost_by_now().is_some() {
            return Duration::ZERO;
        }
        self.record.clock.left(self.deadline())
    }

    /// Returns true if the holder may act now.
    pub fn is_held(&self) -> bool {
        self.record.lost_by_now().is_none()
    }

    /// Returns a future that resolves when the lease ends. See [`LossWatch`].
    pub fn lost(&self) -> LossWatch {
        LossWatch::new(Arc::clone(&self.record))
    }
}

impl fmt::Debug for LeaseView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseView")
            .field("name", &self.record.name)
            .field("fence", &self.record.fence)
            .finish_non_exhaustive()
    }
}
