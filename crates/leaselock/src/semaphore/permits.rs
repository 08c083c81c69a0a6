//! The way in which permits are held.

use leaselock_fence::Fence;

use crate::engine::guard::lease::handle::modes;
use crate::engine::guard::lease::{Lease, LeaseView};

/// One or several permits of a [`Semaphore`](crate::Semaphore), held together.
///
/// # Examples
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leaselock::Client::open("mem:")?;
/// use leaselock::Lease;
/// use leaselock::lease::Permits;
///
/// let permits: Lease<Permits> = client.semaphore("connections", 10).acquire_many(2).await?;
/// assert!(permits.is_held() && permits.count() == 2);
/// permits.extend(std::time::Duration::from_secs(60)).await?; // before a step that takes long
/// permits.release().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permits {
    pub(super) count: u32,
}

modes! {
    Permits: Option<Fence>, Detachable;
}

impl Lease<Permits> {
    /// Returns how many permits are held.
    pub fn count(&self) -> u32 {
        self.known().count
    }
}

impl LeaseView<Permits> {
    /// Returns how many permits are held.
    pub fn count(&self) -> u32 {
        self.known().count
    }
}
