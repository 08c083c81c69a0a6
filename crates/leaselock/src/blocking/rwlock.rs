//! The read-write lock without async.

use std::time::Duration;

use leaselock_fence::Name;

use super::lease::Lease;
use super::upgradable::UpgradableLease;
use super::wait::{change, shown_name, wait};
use crate::base::error::AcquireError;
use crate::client::options::setters;
use crate::rwlock::ChangeError;

/// A [`RwLock`](crate::RwLock) whose calls block the calling thread. Readers and writers get a [`Lease`],
/// upgradable readers an [`UpgradableLease`].
#[derive(Debug, Clone)]
#[must_use = "a read-write lock does nothing until it is acquired"]
pub struct RwLock {
    pub(super) client: crate::Client,
    pub(super) lock: crate::RwLock,
}

impl RwLock {
    setters!(lock.named.options);

    fn about(&self) -> Name {
        shown_name(&self.lock.named.name)
    }

    acquiring! { lock, "RwLock", Lease:
        read();
        read_within(limit: Duration);
        write();
        write_within(limit: Duration);
    }

    trying! { lock, "RwLock", Lease:
        try_read();
        try_write();
    }

    acquiring! { lock, "RwLock", UpgradableLease:
        upgradable_read();
        upgradable_read_within(limit: Duration);
    }

    trying! { lock, "RwLock", UpgradableLease:
        try_upgradable_read();
    }

    /// As [`RwLock::downgrade`](crate::RwLock::downgrade).
    ///
    /// # Errors
    /// [`ChangeError`]: its `lease` is held as before, unless [`is_held`](Lease::is_held) says no.
    pub fn downgrade(&self, writing: Lease) -> Result<Lease, ChangeError<Lease>> {
        let request = |lease| self.lock.downgrade(lease);
        let reading = self.change(writing, request)?;
        Ok(Lease::new(&self.client, reading))
    }

    /// As [`RwLock::downgrade_to_upgradable`](crate::RwLock::downgrade_to_upgradable).
    ///
    /// # Errors
    /// As [`downgrade`](Self::downgrade).
    pub fn downgrade_to_upgradable(
        &self,
        writing: Lease,
    ) -> Result<UpgradableLease, ChangeError<Lease>> {
        let request = |lease| self.lock.downgrade_to_upgradable(lease);
        let reading = self.change(writing, request)?;
        Ok(UpgradableLease::new(&self.client, reading))
    }

    fn change<T, F>(
        &self,
        writing: Lease,
        request: impl FnOnce(crate::Lease) -> F,
    ) -> Result<T, ChangeError<Lease>>
    where
        F: Future<Output = Result<T, ChangeError<crate::Lease>>>,
    {
        let shown = |lease: crate::Lease| Lease::new(&self.client, lease);
        let (client, about) = (&self.client, self.about());
        change(client, about, writing.into_async(), request, shown)
    }
}
