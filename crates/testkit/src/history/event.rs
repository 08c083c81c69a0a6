//! What happened, when and to which attempt.

use std::time::Duration;

/// One attempt at one lock, unique within a history: process and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// The process that made it.
    pub process: u32,
    /// Its number within the process.
    pub number: u64,
}

/// Something that happened to an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When, by [`crate::clock::now`].
    pub at: Duration,
    /// To which attempt.
    pub id: Id,
    /// At which lock.
    pub name: String,
    /// What.
    pub what: What,
}

/// The kinds of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// An acquire is about to be sent.
    Invoke,
    /// It came back with a lease.
    Granted {
        /// The fencing token.
        fence: u64,
        /// Until when the holder may act.
        deadline: Duration,
    },
    /// The lease was prolonged.
    Extended {
        /// The fencing token, which must be the same.
        fence: u64,
        /// Until when the holder may act now.
        deadline: Duration,
    },
    /// A release is about to be sent.
    Release,
    /// It came back.
    Released,
    /// The holder was told that the lease is lost.
    Lost,
    /// The acquire came back without a lease, or with an unknown outcome.
    Failed,
}
