//! Owners: lines of work that may acquire again what they hold.

pub(crate) mod handle;
pub(crate) mod holds;

pub use self::handle::Owner;
pub(crate) use self::handle::OwnerState;
