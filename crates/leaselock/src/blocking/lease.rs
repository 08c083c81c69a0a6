//! A lease without async.

use std::fmt;

use super::wait::wait;
use crate::base::error::{ExtendError, ReleaseError};
use crate::client::lease_handle::Handle;

/// A [`Lease`](crate::Lease) whose calls block the calling thread. Dropping it releases it in the background.
#[must_use = "dropping a lease gives it up"]
#[clippy::has_significant_drop]
pub struct Lease {
    client: crate::Client,
    lease: crate::Lease,
}

impl Lease {
    pub(super) fn new(client: &crate::Client, lease: impl Into<crate::Lease>) -> Self {
        Lease {
            client: client.clone(),
            lease: lease.into(),
        }
    }

    /// Returns the lease with the async methods.
    pub(super) fn into_async(self) -> crate::Lease {
        self.lease
    }

    holding!(lease);

    /// As [`Lease::detach`](crate::Lease::detach).
    ///
    /// # Errors
    /// [`ExtendError`]; the client then gives the lease up.
    pub fn detach(self) -> Result<Handle, ExtendError> {
        wait(&self.client, self.about(), self.lease.detach())
    }

    /// As [`Lease::release`](crate::Lease::release).
    ///
    /// # Errors
    /// [`ReleaseError`]: nothing is held after any of them.
    pub fn release(self) -> Result<(), ReleaseError> {
        wait(&self.client, self.about(), self.lease.release())
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lease.fmt(f)
    }
}
