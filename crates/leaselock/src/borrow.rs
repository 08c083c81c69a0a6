//! Leases of any kind that another process has detached or lent.

use std::sync::Arc;

use crate::KINDS;
use crate::base::error::ExtendError;
use crate::client::detached::DetachedLease;
use crate::client::handle::Client;
use crate::client::lease_handle::Handle;
use crate::client::lending::{BorrowedLease, LentHandle, borrow};

impl Client {
    /// Continues a lease that another process has detached: of a mutex, a reader or a holder of permits, as its handle
    /// says. A quorum continues one of a quorum of the same servers.
    ///
    /// Sends nothing. A handle of a kind of lock that this store does not have is refused by the first operation.
    pub fn attach(&self, handle: Handle) -> DetachedLease {
        DetachedLease::new(Arc::clone(&self.state.engine), KINDS, handle)
    }

    /// Borrows a lease that another process has lent, and renews it from now on.
    ///
    /// Costs one extension for the lender's ttl. The deadline is counted from before that request, and no reply of the
    /// lender moves it.
    ///
    /// # Waiting
    /// One request, within the request timeout.
    ///
    /// # Cancel safety
    /// When dropped, the lease may have been extended once.
    ///
    /// # Errors
    /// [`ExtendError::Lost`] when the lender does not hold it any more; nothing is borrowed after any error.
    pub async fn borrow(&self, handle: LentHandle) -> Result<BorrowedLease, ExtendError> {
        borrow(&self.state.engine, KINDS, handle).await
    }
}
