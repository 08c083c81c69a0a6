//! A detached lease without async.

use std::time::Duration;

use leaselock_fence::{Fence, Name};

use super::wait::wait;
use crate::base::error::{ExtendError, ReleaseError};
use crate::client::detached;

/// A [`DetachedLease`](crate::detached::DetachedLease) whose calls block the calling thread.
#[derive(Debug)]
pub struct DetachedLease {
    pub(super) client: crate::Client,
    pub(super) lease: detached::DetachedLease,
}

impl DetachedLease {
    fn about(&self) -> Name {
        self.lease.name().clone()
    }

    forwarded! { lease:
        /// Returns the lock's name.
        name -> &Name;
        /// Returns the fencing token of the lease.
        fence -> Option<Fence>;
        /// As [`Handle::kind`](crate::detached::Handle::kind).
        kind -> &str;
    }

    /// As [`DetachedLease::extend`](crate::detached::DetachedLease::extend).
    ///
    /// # Errors
    /// [`ExtendError::Lost`] when the lease is gone.
    pub fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        wait(&self.client, self.about(), self.lease.extend(ttl))
    }

    /// As [`DetachedLease::release`](crate::detached::DetachedLease::release).
    ///
    /// # Errors
    /// [`ReleaseError::NotHeld`] when it was not held any more.
    pub fn release(self) -> Result<(), ReleaseError> {
        wait(&self.client, self.about(), self.lease.release())
    }
}
