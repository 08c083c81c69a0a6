//! The guard of a reader that may upgrade.

use std::time::Duration;

use super::change::{ChangeError, downgrade};
use super::kind::{SHARED, UPGRADE, UPGRADE_MODE};
use super::shared::SharedLease;
use crate::base::error::{AcquireError, ReleaseError};
use crate::client::lease_guard::lease_guard;
use crate::client::named::Named;
use crate::engine::guard::lease::Lease;
use crate::engine::values::request::Wait;

/// The lease of a reader that may become a writer, one at a time, beside other readers.
///
/// Dropping it releases it in the background. It has the methods of [`Lease`], to which it dereferences. It has no
/// `detach`: a handle extends and releases, so the read would keep other upgradable readers out and never upgrade.
/// [`downgrade`](UpgradableLease::downgrade) it first, or detach the plain [`Lease`] that it converts into.
#[derive(Debug)]
#[must_use = "a lease that is dropped is released"]
pub struct UpgradableLease {
    lease: Lease,
    /// The mutex of this name, with the same options; on the heap because errors carry it.
    writing: Box<Named>,
}

impl UpgradableLease {
    pub(super) fn new(lease: Lease, writing: Named) -> Self {
        let writing = Box::new(writing);
        UpgradableLease { lease, writing }
    }

    /// Becomes the writer; waits as the options say until every other reader has released.
    ///
    /// The read lasts until then, so no client writes in between. The lease that it returns is that of the
    /// [`Mutex`](crate::Mutex) of this name, with the same options and a larger fencing token. `lost()` of the read
    /// resolves then.
    ///
    /// # Waiting
    /// In front of every waiter, whatever its priority. Readers that come later wait behind this one.
    ///
    /// # Cancel safety
    /// When dropped, the read and what may have been granted are released in the background. Use
    /// [`upgrade_within`](UpgradableLease::upgrade_within) to give up the wait and keep the read.
    ///
    /// # Errors
    /// [`ChangeError`] with this lease, which still reads unless [`is_held`](Lease::is_held) says no. After
    /// [`AcquireError::Unknown`] the store may have made it exclusive, which keeps other clients out: upgrade again,
    /// downgrade or release.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let reading = client.rwlock("config").upgradable_read().await?;
    /// let writing = reading.upgrade().await?;
    /// # writing.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn upgrade(self) -> Result<Lease, ChangeError<Self>> {
        self.upgrade_by(None).await
    }

    /// Becomes the writer if no other client reads; an error with [`AcquireError::StillBusy`] otherwise.
    ///
    /// # Waiting
    /// One request, within the request timeout. Waiters in the queue do not matter: they wait for this reader.
    ///
    /// # Cancel safety
    /// As [`upgrade`](UpgradableLease::upgrade).
    ///
    /// # Errors
    /// As [`upgrade`](UpgradableLease::upgrade).
    pub async fn try_upgrade(self) -> Result<Lease, ChangeError<Self>> {
        self.upgrade_by(Some(Wait::Never)).await
    }

    /// Becomes the writer, and waits for other readers for at most `limit`.
    ///
    /// # Waiting
    /// Returns within `limit` and two request timeouts, whatever the network does.
    ///
    /// # Cancel safety
    /// As [`upgrade`](UpgradableLease::upgrade).
    ///
    /// # Errors
    /// As [`upgrade`](UpgradableLease::upgrade); with [`AcquireError::StillBusy`] when other clients read to the end.
    pub async fn upgrade_within(self, limit: Duration) -> Result<Lease, ChangeError<Self>> {
        self.upgrade_by(Some(Wait::Timeout(limit))).await
    }

    async fn upgrade_by(mut self, wait: Option<Wait>) -> Result<Lease, ChangeError<Self>> {
        let by = self.writing.as_kind(&UPGRADE, Some(UPGRADE_MODE));
        self.lease.announce_change(true);
        match by.change(&self.lease, &self.writing, wait).await {
            Ok(mut writing) => {
                writing.succeed(self.lease);
                Ok(writing)
            }
            Err(error) => {
                self.lease.announce_change(false);
                Err(self.stays(error))
            }
        }
    }

    /// The upgrade was not made.
    fn stays(self, error: AcquireError) -> ChangeError<Self> {
        let error = match error {
            AcquireError::Lost(lost) => AcquireError::Lost(self.lease.end(lost.reason)),
            error => error,
        };
        ChangeError::new(self, error)
    }

    /// Goes on as a plain reader, so that another one may become upgradable.
    ///
    /// # Waiting
    /// One request, within the request timeout.
    ///
    /// # Cancel safety
    /// When dropped, the lease is released in the background.
    ///
    /// # Errors
    /// [`ChangeError`]: its `lease` is held as before, unless [`is_held`](Lease::is_held) says no.
    pub async fn downgrade(self) -> Result<SharedLease, ChangeError<Self>> {
        let UpgradableLease { lease, writing } = self;
        match downgrade(&writing, lease, SHARED).await {
            Ok(lease) => Ok(SharedLease(lease)),
            Err(ChangeError { lease, error }) => {
                let lease = UpgradableLease { lease, writing };
                Err(ChangeError { lease, error })
            }
        }
    }

    /// Releases the lease; the waiters that fit then are granted in the same step.
    ///
    /// # Waiting
    /// Within two request timeouts. If no reply arrives, the request is sent again; the same request twice does no
    /// harm.
    ///
    /// # Cancel safety
    /// When dropped, the release goes on in the background.
    ///
    /// # Errors
    /// [`ReleaseError`]: nothing is held after any of them. After `NotHeld`, a client may have written meanwhile.
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.lease.release().await
    }
}

// The lease alone, for code that handles leases of every kind. It cannot be upgraded.
lease_guard!(UpgradableLease.lease);
