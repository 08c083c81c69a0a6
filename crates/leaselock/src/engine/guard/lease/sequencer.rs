//! What the holder of a lease shows to a protected resource.

use leaselock_fence::Sequencer;

use super::handle::Lease;

impl Lease {
    /// Returns what you show to the resource that the lease protects, which refuses it when you are late.
    ///
    /// `None` without fencing. It stays the same for the whole life of the lease, in a process that borrows it too. The
    /// fence checkers of the crate [`leaselock-fence`](leaselock_fence) admit it or refuse it.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let lease = client.mutex("invoices").acquire().await?;
    /// let shown = lease.sequencer().ok_or("fencing is on")?;
    /// println!("Leaselock-Sequencer: {shown}"); // a header of each request to the service that keeps the invoices
    /// # Ok(()) }
    /// ```
    pub fn sequencer(&self) -> Option<Sequencer> {
        self.parts().1.sequencer()
    }
}
