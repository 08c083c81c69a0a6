//! Leases on a majority of independent servers: the Redlock algorithm (redis.io, *Distributed locks with Redis*).
//!
//! Every node is an ordinary server. A quorum sends an operation to all of them at once, and the operation itself
//! combines their replies. Counting and arithmetic are apart from sending. No caller waits for a node that cannot
//! change the outcome any more.

mod doctor;
pub(crate) mod executor;
pub(crate) mod group;
pub(crate) mod member;
pub(crate) mod proposals;
pub(crate) mod repair;
pub(crate) mod requests;
mod store;
pub(crate) mod tally;
