//! Locks on a majority of independent servers.

use crate::base::error::{BreakError, InspectError, StoreError};
use crate::client::detached::{DetachedLease, Handle};
use crate::client::handle::{Client, CloseReport};
use crate::client::inspect::{BreakOptions, BreakOutcome, Inspection};
use crate::engine::lease::LeaseView;
use crate::store::redis::LoadedFunctions;
use crate::store::report::Report;

/// Locks on a majority of independent servers: the Redlock algorithm.
///
/// Cheap to clone; clones share everything. A client holds a lease when a majority of all configured nodes have granted
/// it and time is left on it. The other nodes may be down, frozen or cut off; no request waits for them. The page
/// *Quorum* of the documentation says what is promised, under which assumptions, and when one server is the better
/// choice.
///
/// A mutex of a quorum has the methods of any other, with these differences: it serves in no certain order, `priority`
/// and other [protocols](crate::Protocol) are refused, and no ttl is longer than
/// [`longest_ttl`](crate::QuorumBuilder::longest_ttl).
///
/// ```no_run
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let quorum = leaselock::Quorum::connect(["redis://one", "redis://two", "redis://three"])?;
/// let lease = quorum.mutex("invoices/2026-07").acquire().await?;
/// # lease.release().await?;
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # What does not exist here
/// An operation that nodes cannot vote on is a missing method: it fails at compile time, not at run time. There is no
/// `list`: each node knows other locks, those of failed rounds among them, and no majority has agreed on any list.
///
/// ```compile_fail,E0599
/// # async fn f(quorum: leaselock::Quorum) {
/// quorum.list("*").await;
/// # }
/// ```
///
/// Nor is there a semaphore. Two majorities may have only one node in common, so with three permits on five nodes a
/// majority can grant a fourth.
///
/// ```compile_fail,E0599
/// # fn f(quorum: leaselock::Quorum) {
/// quorum.semaphore("pool", 3);
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Quorum {
    pub(crate) client: Client,
}

impl Quorum {
    /// Returns this client's id, as others see it. Not a secret.
    pub fn id(&self) -> &str {
        self.client.id()
    }

    /// Lists the leases that this client holds, oldest first.
    pub fn held(&self) -> Vec<LeaseView> {
        self.client.held()
    }

    /// Shows the holder of a name: the client with the votes of a majority.
    ///
    /// A quorum has no queue, so no positions are shown.
    ///
    /// # Cancel safety
    /// Safe: the call only reads.
    ///
    /// # Errors
    /// [`InspectError`] when the name is bad or no majority replies.
    pub async fn inspect(&self, name: &str) -> Result<Inspection, InspectError> {
        self.client.inspect(name).await
    }

    /// Takes a lock away from its holder, as an operator, on every node that replies.
    ///
    /// The holder learns of it at its next renewal and may act until then: only fencing protects against that. No
    /// waiter is woken; waiters poll after five seconds at most.
    ///
    /// # Cancel safety
    /// When dropped, it may have happened, possibly on some nodes only.
    ///
    /// # Errors
    /// [`BreakError`] says why nothing was broken.
    pub async fn break_lease(
        &self,
        name: &str,
        terms: BreakOptions,
    ) -> Result<BreakOutcome, BreakError> {
        self.client.break_lease(name, terms).await
    }

    /// Continues a lease that another process has detached. It must be of a quorum of the same servers.
    pub fn attach(&self, handle: Handle) -> DetachedLease {
        self.client.attach(handle)
    }

    /// Examines every node: whether it replies, votes and is a server of its own.
    ///
    /// It also checks all that is checked for a single server.
    ///
    /// # Errors
    /// [`StoreError`] when no node could be asked. A node that does not reply is a finding.
    pub async fn doctor(&self) -> Result<Report, StoreError> {
        self.client.doctor().await
    }

    /// Loads all scripts as functions onto every node, for quorums that were built with
    /// [`functions`](crate::QuorumBuilder::functions). See [`Client::load_functions`].
    ///
    /// # Cancel safety
    /// When dropped, it may have happened, possibly on some nodes only; repeating it does no harm.
    ///
    /// # Errors
    /// [`StoreError`] names each node that does not have them now; the others do.
    pub async fn load_functions(&self) -> Result<LoadedFunctions, StoreError> {
        self.client.load_functions().await
    }

    /// Names the servers, as [`Client::store`] does.
    pub fn store(&self) -> String {
        self.client.store()
    }

    /// Closes the quorum, as [`Client::close`] does.
    ///
    /// What nodes that are down have not confirmed ends there by itself at its ttl.
    pub async fn close(&self) -> CloseReport {
        self.client.close().await
    }
}
