//! Leases on a majority of independent servers: the Redlock algorithm (redis.io, *Distributed locks with Redis*).
//!
//! Every node is an ordinary server. A quorum sends an operation to all of them at once, and the operation itself
//! combines their replies. Counting and arithmetic are apart from sending. No caller waits for a node that cannot
//! change the outcome any more.

#[cfg(feature = "redis")]
mod doctor;
#[cfg(feature = "redis")]
pub(crate) mod eligibility;
pub(crate) mod executor;
#[cfg(feature = "redis")]
pub(crate) mod fan_out;
#[cfg(feature = "redis")]
pub(crate) mod group;
#[cfg(feature = "redis")]
mod limits;
#[cfg(feature = "redis")]
pub(crate) mod member;
#[cfg(feature = "redis")]
pub(crate) mod proposals;
#[cfg(feature = "redis")]
pub(crate) mod repair;
#[cfg(feature = "redis")]
pub(crate) mod tally;
pub(crate) mod votable;
