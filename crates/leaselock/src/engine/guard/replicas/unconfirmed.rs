//! A lease that does not count until replicas have it.

use crate::base::error::ReleaseError;
use crate::engine::guard::lease::Lease;

/// How a lease is given back that too few replicas have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GiveBack {
    Release,
    /// As if it had never been granted: for kinds whose release records something about the lease.
    Undo,
}

/// A lease that is given back unless it is taken out, also when this is dropped.
pub(super) struct Unconfirmed {
    /// `None` at the end.
    lease: Option<Lease>,
    how: GiveBack,
}

impl Unconfirmed {
    pub(super) fn new(lease: Lease, how: GiveBack) -> Self {
        let lease = Some(lease);
        Unconfirmed { lease, how }
    }

    pub(super) fn take_if_held(&mut self) -> Option<Lease> {
        self.lease.take_if(|lease| lease.is_held())
    }

    pub(super) async fn give_back(mut self) -> Result<(), ReleaseError> {
        let Some(lease) = self.lease.take() else {
            return Ok(());
        };
        if self.how == GiveBack::Release {
            return lease.release().await;
        }
        let name = lease.name().clone();
        let undone = lease.undo().await;
        undone.map_err(|source| ReleaseError::Store { name, source })
    }
}

impl Drop for Unconfirmed {
    fn drop(&mut self) {
        if let Some(lease) = &mut self.lease
            && self.how == GiveBack::Undo
        {
            lease.expect_late_requests(); // the cleanup then cancels, and does not release
        }
    }
}
