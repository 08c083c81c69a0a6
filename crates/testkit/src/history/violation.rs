//! What is wrong with a history, in words.

use std::fmt;
use std::time::Duration;

use super::event::{Id, What};

/// Something that cannot be true of locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// Two holders at the same time.
    Overlap {
        /// The lock.
        name: String,
        /// Who held it.
        first: Id,
        /// Who was granted it too.
        second: Id,
        /// For how long at least.
        overlap: Duration,
    },
    /// The same fencing token for two grants.
    RepeatedFence {
        /// The lock.
        name: String,
        /// The earlier grant.
        first: Id,
        /// The later grant.
        second: Id,
        /// The token.
        fence: u64,
    },
    /// A grant that began after another was known, with a fencing token that is not greater.
    ReorderedFence {
        /// The lock.
        name: String,
        /// The earlier grant and its token.
        first: (Id, u64),
        /// The later grant and its token.
        second: (Id, u64),
    },
    /// An extension that changed the fencing token.
    ChangedFence {
        /// The lock.
        name: String,
        /// The attempt.
        id: Id,
        /// The tokens before and after.
        fences: (u64, u64),
    },
    /// Events that do not make a life: granted twice, or extended before granted. The recording
    /// is at fault, and what it says about locks is worth nothing.
    Nonsense {
        /// The attempt.
        id: Id,
        /// The event that cannot be.
        what: What,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Overlap {
                name,
                first,
                second,
                overlap,
            } => {
                write!(
                    f,
                    "`{name}` was held by {second:?} and still by {first:?} for {overlap:?}"
                )
            }
            Violation::RepeatedFence {
                name,
                first,
                second,
                fence,
            } => {
                write!(
                    f,
                    "`{name}` gave the fence {fence} to {first:?} and again to {second:?}"
                )
            }
            Violation::ReorderedFence {
                name,
                first,
                second,
            } => {
                write!(
                    f,
                    "`{name}` gave the later grant no greater fence: {first:?}, then {second:?}"
                )
            }
            Violation::ChangedFence { name, id, fences } => {
                write!(
                    f,
                    "`{name}` changed the fence of {id:?} while extending: {fences:?}"
                )
            }
            Violation::Nonsense { id, what } => {
                write!(f, "{id:?} cannot be {what:?} at this point")
            }
        }
    }
}
