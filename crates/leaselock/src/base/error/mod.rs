//! Errors: one small enum per operation. Every variant states what the caller holds.

mod deadlock;
mod facts;
mod kind;
mod lost;
mod noun;
pub(crate) mod operation;
mod operations;
mod quarantine;
mod store;
mod vote;

#[cfg(test)]
mod tests;

pub use self::deadlock::Link;
pub use self::kind::ErrorKind;
pub use self::lost::{Lost, LostReason};
pub(crate) use self::noun::{NounFailure, noun_error};
pub(crate) use self::operation::{ErrorFacts, HasFacts};
pub use self::operation::{OperationError, Remains};
pub use self::operations::{AcquireError, BreakError, LeaseError, ReleaseError, RequestError};
pub use self::quarantine::Quarantine;
pub(crate) use self::store::Detail;
pub(crate) use self::store::Tally;
pub use self::store::{NodeVote, StoreError};
pub use self::vote::Vote;
pub use leaselock_fence::InvalidInput;
