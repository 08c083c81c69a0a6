//! Locks on a majority of independent servers.

mod builder;
mod handle;

pub use self::builder::{DEFAULT_LONGEST_TTL, QuorumBuilder};
pub use self::handle::Quorum;
