//! The lease of a reader that may upgrade, without async.

use std::time::Duration;

use super::lease::Lease;
use super::wait::{change, wait};
use crate::base::error::ReleaseError;
use crate::rwlock::ChangeError;

/// An [`UpgradableLease`](crate::UpgradableLease) whose calls block the calling thread. Dropping it releases it in the
/// background.
#[derive(Debug)]
#[must_use = "a lease that is dropped is released"]
pub struct UpgradableLease {
    client: crate::Client,
    lease: crate::UpgradableLease,
}

impl UpgradableLease {
    pub(super) fn new(client: &crate::Client, lease: crate::UpgradableLease) -> Self {
        let client = client.clone();
        UpgradableLease { client, lease }
    }

    holding!(lease);

    /// As [`UpgradableLease::upgrade`](crate::UpgradableLease::upgrade).
    ///
    /// # Errors
    /// [`ChangeError`] with this lease, which still reads unless [`is_held`](Self::is_held) says no.
    pub fn upgrade(self) -> Result<Lease, ChangeError<Self>> {
        self.change(crate::UpgradableLease::upgrade)
    }

    /// As [`UpgradableLease::try_upgrade`](crate::UpgradableLease::try_upgrade).
    ///
    /// # Errors
    /// As [`upgrade`](Self::upgrade).
    pub fn try_upgrade(self) -> Result<Lease, ChangeError<Self>> {
        self.change(crate::UpgradableLease::try_upgrade)
    }

    /// As [`UpgradableLease::upgrade_within`](crate::UpgradableLease::upgrade_within).
    ///
    /// # Errors
    /// As [`upgrade`](Self::upgrade).
    pub fn upgrade_within(self, limit: Duration) -> Result<Lease, ChangeError<Self>> {
        self.change(|lease| lease.upgrade_within(limit))
    }

    /// As [`UpgradableLease::downgrade`](crate::UpgradableLease::downgrade).
    ///
    /// # Errors
    /// As [`upgrade`](Self::upgrade).
    pub fn downgrade(self) -> Result<Lease, ChangeError<Self>> {
        self.change(crate::UpgradableLease::downgrade)
    }

    fn change<L, F>(
        self,
        request: impl FnOnce(crate::UpgradableLease) -> F,
    ) -> Result<Lease, ChangeError<Self>>
    where
        L: Into<crate::Lease>,
        F: Future<Output = Result<L, ChangeError<crate::UpgradableLease>>>,
    {
        let (about, client) = (self.about(), self.client);
        let shown = |lease| UpgradableLease::new(&client, lease);
        let changed = change(&client, about, self.lease, request, shown)?;
        Ok(Lease::new(&client, changed))
    }

    /// As [`UpgradableLease::release`](crate::UpgradableLease::release).
    ///
    /// # Errors
    /// [`ReleaseError`]: nothing is held after any of them.
    pub fn release(self) -> Result<(), ReleaseError> {
        wait(&self.client, self.about(), self.lease.release())
    }
}
