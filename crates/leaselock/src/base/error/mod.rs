//! Errors: one small enum per operation. Every variant states what the caller holds.

mod deadlock;
mod lost;
mod noun;
pub(crate) mod operation;
mod operations;
mod store;

#[cfg(test)]
mod tests;

pub use self::deadlock::Link;
pub use self::lost::{Lost, LostReason, Quarantine};
pub(crate) use self::noun::{NounFailure, noun_error};
pub(crate) use self::operation::{ErrorFacts, HasFacts};
pub use self::operation::{OperationError, Remains};
pub use self::operations::{AcquireError, BreakError, LeaseError, ReleaseError, RequestError};
pub(crate) use self::store::{Detail, Result, Tally, refusal};
pub use self::store::{ErrorKind, NodeVote, StoreError, Vote};
pub use leaselock_fence::InvalidInput;
