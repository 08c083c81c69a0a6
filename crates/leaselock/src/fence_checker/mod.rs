//! Fence checkers: what stands at a protected resource and refuses a holder that is late.
//!
//! A holder can lose its lease without knowing it: its process freezes, or its write is on the way while the lease
//! expires. No lock can stop that write; only the resource sees it. So the holder shows its
//! [`Sequencer`](crate::Sequencer) with each request, **reads as well as writes**, and the resource refuses one that is
//! older than the newest that it has seen. Comparing and the work itself are one atomic step.
//!
//! | the resource | its checker |
//! |---|---|
//! | is in the memory of one process, or has a protocol of its own | [`FenceChecker`], the rule without I/O |
//! | is a value in Redis | [`redis`], a script |
//! | is in the tables of PostgreSQL, SQLite, MySQL or MariaDB | [`sql`], a statement in the transaction of the work |
//! | is a folder of files | [`FileFenceChecker`] |
#![cfg_attr(
    feature = "tower",
    doc = "| is behind an HTTP service | [`FenceLayer`](crate::http::FenceLayer), a layer of tower |"
)]
//! | is an object store | [`FenceChecker`], and the conditional writes that the store has |
//!
//! What a checker has seen must live as long as the resource: keep both in one place, under one backup.

mod checker;
mod file;
pub mod redis;
pub mod sql;

pub use self::checker::{Admission, FenceChecker, FenceRefused};
pub use self::file::{FileFenceChecker, FileFenceError};
