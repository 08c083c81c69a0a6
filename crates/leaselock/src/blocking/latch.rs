//! The latch without async.

use std::time::Duration;

use leaselock_fence::Name;

use super::wait::{shown_name, wait};
use crate::latch::{LatchError, LatchState};

/// A [`Latch`](crate::Latch) whose calls block the calling thread.
#[derive(Debug, Clone)]
#[must_use = "a latch does nothing until a party arrives or a task waits"]
pub struct Latch {
    pub(super) client: crate::Client,
    pub(super) latch: crate::Latch,
}

impl Latch {
    setting! { latch, "Latch":
        kept(kept: Duration);
    }

    fn about(&self) -> Name {
        shown_name(&self.latch.noun.name())
    }

    validating!(latch, "Latch");

    waiting! { latch, "Latch":
        /// [`LatchError`]: every variant says whether the party is counted.
        arrive(party: &str) -> Result<u32, LatchError>;
        /// [`LatchError`]: it is not known who has arrived.
        state() -> Result<LatchState, LatchError>;
        /// [`LatchError`]; those that have arrived stay counted.
        wait() -> Result<(), LatchError>;
        /// [`LatchError::StillClosed`] when not all have arrived by then; those that have stay counted.
        wait_within(limit: Duration) -> Result<(), LatchError>;
    }
}
