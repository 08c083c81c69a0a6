//! Owners: lines of work that may acquire again what they hold.

pub(crate) mod guard;
pub(crate) mod holds;
pub(crate) mod mode;
mod owner;

pub use self::owner::Owner;
pub(crate) use self::owner::OwnerState;
