//! The barrier without async.

use std::time::Duration;

use leaselock_fence::Name;

use super::wait::{shown_name, wait};
use crate::barrier::{BarrierError, BarrierPass};

/// A [`Barrier`](crate::Barrier) whose calls block the calling thread.
#[derive(Debug, Clone)]
#[must_use = "a barrier does nothing until a party waits"]
pub struct Barrier {
    pub(super) client: crate::Client,
    pub(super) barrier: crate::Barrier,
}

impl Barrier {
    setting! { barrier, "Barrier":
        ttl(lease: Duration);
    }

    fn about(&self) -> Name {
        shown_name(&self.barrier.noun.name())
    }

    validating!(barrier, "Barrier");

    waiting! { barrier, "Barrier":
        /// [`BarrierError`]: every variant says whether the party is counted.
        wait() -> Result<BarrierPass, BarrierError>;
        /// [`BarrierError::TimedOut`] when not all have arrived by then; this party is not counted any more.
        wait_within(limit: Duration) -> Result<BarrierPass, BarrierError>;
    }
}
