//! The locks of several names without async.

use std::ops::Deref;
use std::time::Duration;

use leaselock_fence::Name;

use super::wait::{refused_name, wait};
use crate::base::error::{AcquireError, ExtendError, InvalidInput, MultiReleaseError};
use crate::multilock::MultiLeaseView;

/// A [`MultiLock`](crate::MultiLock) whose calls block the calling thread.
#[derive(Debug, Clone)]
#[must_use = "a multilock does nothing until it is acquired"]
pub struct MultiLock {
    client: crate::Client,
    /// The first name.
    about: Name,
    lock: crate::MultiLock,
}

impl MultiLock {
    pub(super) fn new(client: crate::Client, about: Name, lock: crate::MultiLock) -> Self {
        MultiLock {
            client,
            about,
            lock,
        }
    }

    fn about(&self) -> Name {
        self.about.clone()
    }

    /// As [`MultiLock::validate`](crate::MultiLock::validate).
    ///
    /// # Errors
    /// [`InvalidInput`] says what would be valid. Nothing is sent.
    pub fn validate(mut self) -> Result<Self, InvalidInput> {
        self.lock = self.lock.validate()?;
        Ok(self)
    }

    acquiring! { lock, "MultiLock", MultiLease:
        acquire();
        acquire_within(limit: Duration);
    }

    trying! { lock, "MultiLock", MultiLease:
        try_acquire();
    }
}

/// A [`MultiLease`](crate::MultiLease) whose calls block the calling thread. Dropping it releases every name in the
/// background.
///
/// It has the methods of [`MultiLeaseView`], to which it dereferences.
#[derive(Debug)]
#[must_use = "dropping a lease gives it up"]
#[clippy::has_significant_drop]
pub struct MultiLease {
    client: crate::Client,
    lease: crate::MultiLease,
}

impl MultiLease {
    pub(super) fn new(client: &crate::Client, lease: crate::MultiLease) -> Self {
        let client = client.clone();
        MultiLease { client, lease }
    }

    fn about(&self) -> Name {
        let first = self.lease.names().next().cloned();
        first.unwrap_or_else(refused_name)
    }

    forwarded! { lease:
        /// Returns the ttl that each renewal asks for.
        ttl -> Duration;
        /// Returns a view for other threads, which can read but not extend or release.
        view -> MultiLeaseView;
    }

    waiting! { lease, "MultiLease":
        /// [`ExtendError`]: every variant says what it means for the leases.
        extend(ttl: Duration) -> Result<(), ExtendError>;
    }

    /// As [`MultiLease::release`](crate::MultiLease::release).
    ///
    /// # Errors
    /// [`MultiReleaseError`]: nothing is held after it.
    pub fn release(self) -> Result<(), MultiReleaseError> {
        wait(&self.client, self.about(), self.lease.release())
    }
}

impl Deref for MultiLease {
    type Target = MultiLeaseView;

    fn deref(&self) -> &MultiLeaseView {
        &self.lease
    }
}
