//! The guard of a reader.

use crate::base::error::{ExtendError, ReleaseError};
use crate::client::lease_guard::lease_guard;
use crate::client::lease_handle::Handle;
use crate::engine::guard::lease::Lease;

/// A reader's lease, beside those of other readers. Dropping it releases it in the background.
///
/// It has the methods of [`Lease`], to which it dereferences. Readers that hold at the same time have the same
/// [`fence`](Lease::fence): larger than that of the writer before them, smaller than that of the writer after them.
/// Each reader has a lease of its own: the end of one says nothing about the others.
///
/// # Examples
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leaselock::Client::open("mem:")?;
/// let reading = client.rwlock("config").read().await?; // renewed in the background
/// assert!(reading.is_held());
/// println!("fencing token {:?}, {:?} left", reading.fence(), reading.remaining());
/// reading.release().await?;
/// # Ok(()) }
/// ```
///
/// It has no `upgrade`: two readers that both upgraded would wait for each other for ever. Ask for an
/// [`upgradable_read`](crate::RwLock::upgradable_read).
///
/// ```compile_fail,E0599
/// async fn upgrades(reading: leaselock::rwlock::SharedLease) {
///     reading.upgrade().await;
/// }
/// ```
#[derive(Debug)]
#[must_use = "a lease that is dropped is released"]
pub struct SharedLease(pub(super) Lease);

impl SharedLease {
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
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let reading = client.rwlock("config").read().await?;
    /// if let Err(error) = reading.release().await {
    ///     println!("another client may have written meanwhile: {error}");
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.0.release().await
    }

    /// Turns the lease into a handle with which another process can extend or release it.
    ///
    /// As [`Lease::detach`], which says more: the read lasts a whole ttl from now, and the client does not renew it.
    ///
    /// # Waiting
    /// Within two request timeouts.
    ///
    /// # Cancel safety
    /// When dropped, the lease is released in the background.
    ///
    /// # Errors
    /// [`ExtendError`]; nothing is held then: the client releases the lease in the background.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// # let other_client = client.clone();
    /// let reading = client.rwlock("config").read().await?;
    /// let handle = reading.detach().await?; // to another process
    /// other_client.attach(handle).release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn detach(self) -> Result<Handle, ExtendError> {
        self.0.detach().await
    }
}

lease_guard!(SharedLease.0);
