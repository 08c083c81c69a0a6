//! Leases of any kind that another process has detached or lent.

use std::sync::Arc;

use crate::KINDS;
use crate::client::detached::DetachedLease;
use crate::client::handle::Client;
use crate::client::lease_handle::Handle;

impl Client {
    /// Continues a lease that another process has detached or lent, as its handle says. A majority continues a lease of
    /// the same servers.
    ///
    /// Sends nothing. A handle of a kind of lock that this store does not have is refused by the first operation.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let handle = client.mutex("invoices").acquire().await?.detach().await?;
    /// let text = handle.to_secret_string(); // to another process
    /// let lease = client.attach(text.parse()?);
    /// lease.release().await?;
    /// # Ok(()) }
    /// ```
    pub fn attach(&self, handle: Handle) -> DetachedLease {
        DetachedLease {
            engine: Arc::clone(&self.state.engine),
            kinds: KINDS,
            handle,
        }
    }
}
