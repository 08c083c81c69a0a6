//! The barrier without async.

use std::time::Duration;

use super::wait::wait;
use crate::barrier::{BarrierError, BarrierPass};
use crate::base::error::InvalidInput;
use crate::base::name::Name;

/// A [`Barrier`](crate::Barrier) whose calls block the calling thread.
#[derive(Debug, Clone)]
#[must_use = "a barrier does nothing until a party waits"]
pub struct Barrier {
    pub(super) client: crate::Client,
    pub(super) barrier: crate::Barrier,
}

impl Barrier {
    /// As [`Barrier::ttl`](crate::Barrier::ttl).
    pub fn ttl(mut self, lease: Duration) -> Self {
        self.barrier = self.barrier.ttl(lease);
        self
    }

    fn about(&self) -> Name {
        Name::shown(&self.barrier.name)
    }

    /// As [`Barrier::validate`](crate::Barrier::validate).
    ///
    /// # Errors
    /// [`InvalidInput`] says what would be valid. Nothing is sent.
    pub fn validate(mut self) -> Result<Self, InvalidInput> {
        self.barrier = self.barrier.validate()?;
        Ok(self)
    }

    waiting! { barrier, "Barrier":
        /// [`BarrierError`]: every variant says whether the party is counted.
        wait() -> Result<BarrierPass, BarrierError>;
        /// [`BarrierError::TimedOut`] when not all have arrived by then; this party is not counted any more.
        wait_within(limit: Duration) -> Result<BarrierPass, BarrierError>;
    }
}
