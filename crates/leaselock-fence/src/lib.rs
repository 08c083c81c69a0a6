//! What stands at a resource that a lock protects, and refuses a holder that is late.
//!
//! A holder can lose its lease without knowing it: its process freezes, or its write is on the way while the lease
//! expires. No lock can stop that write; only the resource sees it. So the holder shows its
//! [`Sequencer`] with each request, **reads as well as writes**, and the resource refuses one that is
//! older than the newest that it has seen. Comparing and the work itself are one atomic step.
//!
//! | the resource | its checker |
//! |---|---|
//! | is in the memory of one process, or has a protocol of its own | [`FenceChecker`], the rule without I/O |
//! | is a value in Redis | [`redis`], a script |
//! | is in the tables of PostgreSQL, SQLite, MySQL or MariaDB | [`sql`], a statement in the transaction of the work |
//! | is a folder of files | [`FileFenceChecker`] |
//! | is behind an HTTP service | `FenceLayer` of the crate `leaselock-tower` |
//! | is an object store | [`FenceChecker`], and the conditional writes that the store has |
//!
//! With the feature `serde`, [`Name`] and [`Sequencer`] are written and read as text, and [`Fence`] as a number.
//!
//! What a checker has seen must live as long as the resource: keep both in one place, under one backup.

mod checker;
mod fence;
mod file;
mod invalid_input;
mod name;
pub mod redis;
mod sequencer;
#[cfg(feature = "serde")]
mod serde_text;
pub mod sql;

pub use crate::checker::{Admission, FenceChecker, FenceRefused};
pub use crate::fence::Fence;
pub use crate::file::{FileFenceChecker, FileFenceError};
pub use crate::invalid_input::InvalidInput;
pub use crate::name::Name;
pub use crate::sequencer::Sequencer;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
