//! The guard of permits that are held.

use crate::base::error::{ExtendError, ReleaseError};
use crate::client::lease_guard::lease_guard;
use crate::client::lease_handle::Handle;
use crate::engine::guard::lease::Lease;

/// One or several permits that are held together. Dropping it releases them in the background.
///
/// It has the methods of [`Lease`], to which it dereferences.
///
/// # Examples
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leaselock::Client::open("mem:")?;
/// let permit = client.semaphore("connections", 10).acquire_many(2).await?;
/// assert!(permit.is_held() && permit.count() == 2);
/// permit.extend(std::time::Duration::from_secs(60)).await?; // before a step that takes long
/// permit.release().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a permit that is dropped is given back"]
pub struct Permit {
    pub(super) lease: Lease,
    pub(super) count: u32,
}

impl Permit {
    /// Returns how many permits are held.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Releases the permits; the waiters that fit then are granted in the same step.
    ///
    /// # Waiting
    /// Within two request timeouts. If no reply arrives, the request is sent again; the same request twice does no
    /// harm.
    ///
    /// # Cancel safety
    /// When dropped, the release goes on in the background.
    ///
    /// # Errors
    /// [`ReleaseError`]: nothing is held after any of them. After `NotHeld`, other clients may have held the permits
    /// meanwhile.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let permit = client.semaphore("connections", 10).acquire().await?;
    /// if let Err(error) = permit.release().await {
    ///     println!("more than ten may have worked at a time: {error}");
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.lease.release().await
    }

    /// Turns the permits into a handle with which another process can extend or release them together.
    ///
    /// As [`Lease::detach`], which says more: the permits last a whole ttl from now, and the client does not renew them.
    ///
    /// # Waiting
    /// Within two request timeouts.
    ///
    /// # Cancel safety
    /// When dropped, the permits are released in the background.
    ///
    /// # Errors
    /// [`ExtendError`]; nothing is held then: the client releases the permits in the background.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// # let other_client = client.clone();
    /// let two = client.semaphore("connections", 10).acquire_many(2).await?;
    /// let handle = two.detach().await?; // to another process
    /// other_client.attach(handle).release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn detach(self) -> Result<Handle, ExtendError> {
        self.lease.detach().await
    }
}

lease_guard!(Permit.lease);
