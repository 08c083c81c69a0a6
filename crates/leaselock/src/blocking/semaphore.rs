//! The semaphore without async.

use std::time::Duration;

use leaselock_fence::Name;

use super::lease::Lease;
use super::wait::{shown_name, wait};
use crate::base::error::{AcquireError, InspectError};
use crate::client::options::setters;

/// A [`Semaphore`](crate::Semaphore) whose calls block the calling thread. Permits are a [`Lease`].
#[derive(Debug, Clone)]
#[must_use = "a semaphore does nothing until it is acquired"]
pub struct Semaphore {
    pub(super) client: crate::Client,
    pub(super) semaphore: crate::Semaphore,
}

impl Semaphore {
    setters!(semaphore.named.options);

    fn about(&self) -> Name {
        shown_name(&self.semaphore.named.name)
    }

    acquiring! { semaphore, "Semaphore", Lease:
        acquire();
        acquire_many(count: u32);
        acquire_within(limit: Duration);
        acquire_many_within(count: u32, limit: Duration);
    }

    trying! { semaphore, "Semaphore", Lease:
        try_acquire();
        try_acquire_many(count: u32);
    }

    waiting! { semaphore, "Semaphore":
        /// [`InspectError`]: it is not known whether the number was set.
        set_permits(permits: u32) -> Result<u32, InspectError>;
        /// [`InspectError`]: it is not known whether the number is still pinned.
        unset_permits() -> Result<u32, InspectError>;
    }
}
