//! Who leads, as all clients see it.

use leaselock_fence::Fence;

/// The leader of an election, as it was read last. The leader may be gone by the time it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proclamation {
    /// What the leader proclaimed, such as its address. Another client wrote it: show it, do not trust it.
    pub value: String,
    /// The leader's fencing token, larger with each leader. Two leaders never have the same.
    pub term: Fence,
    /// The id of the leader's client.
    pub client: String,
}
