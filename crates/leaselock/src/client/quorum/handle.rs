//! Locks on a majority of independent servers.

use std::sync::Arc;

use crate::client::state::ClientState;

/// Locks on a majority of independent servers: the Redlock algorithm.
///
/// Cheap to clone; clones share everything. A client holds a lease when a majority of all configured nodes have granted
/// it and time is left on it. The other nodes may be down, frozen or cut off; no request waits for them. The page
/// *Quorum* of the documentation says what is promised, under which assumptions, and when one server is the better
/// choice.
///
/// A mutex of a quorum has the methods of any other, with these differences: it serves waiters in no certain order, `priority`
/// and other [protocols](crate::interop::Protocol) are refused, and no ttl is longer than
/// [`longest_ttl`](crate::QuorumBuilder::longest_ttl).
///
/// ```no_run
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let quorum = leaselock::Quorum::connect(["redis://one", "redis://two", "redis://three"])?;
/// let lease = quorum.mutex("invoices/2026-07").acquire().await?;
/// # lease.release().await?;
/// # Ok(()) }
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
/// There is no semaphore: two majorities may have only one node in common, so with three permits on five nodes a
/// majority can grant a fourth. There is no read-write lock: without a queue, a stream of readers would keep a writer
/// out for ever.
///
/// ```compile_fail,E0599
/// # fn f(quorum: leaselock::Quorum) {
/// quorum.semaphore("pool", 3);
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Quorum {
    pub(crate) state: Arc<ClientState>,
}
