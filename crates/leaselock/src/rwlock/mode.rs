//! The ways in which a reader holds.

use leaselock_fence::Fence;

use crate::client::named::Named;
use crate::engine::guard::lease::handle::modes;

/// A reader, beside others.
///
/// Readers that hold at the same time have the same [`fence`](crate::Lease::fence): larger than that of the writer before
/// them, smaller than that of the writer after them. Each has a lease of its own: the end of one says nothing about the
/// others.
///
/// Its lease has no `upgrade`: two readers that both upgraded would deadlock. Ask for an
/// [`upgradable_read`](crate::RwLock::upgradable_read).
///
/// # Examples
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leaselock::Client::open("mem:")?;
/// use leaselock::Lease;
/// use leaselock::lease::Shared;
///
/// let reading: Lease<Shared> = client.rwlock("config").read().await?; // renewed in the background
/// assert!(reading.is_held());
/// println!("fencing token {:?}, {:?} left", reading.fence(), reading.remaining());
/// reading.release().await?;
/// # Ok(()) }
/// ```
///
/// ```compile_fail,E0599
/// async fn upgrades(reading: leaselock::Lease<leaselock::lease::Shared>) {
///     reading.upgrade().await;
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shared;

/// A reader that may become a writer, one at a time, beside other readers.
///
/// Its lease has no `detach`: a handle extends and releases, so the read would keep other upgradable readers out and never
/// upgrade.
#[derive(Debug, Clone)]
pub struct Upgradable {
    /// The mutex of this name, with the same options; on the heap because errors carry it.
    pub(super) writing: Box<Named>,
}

modes! {
    Shared: Option<Fence>, Detachable;
    Upgradable: Option<Fence>;
}
