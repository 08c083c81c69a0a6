//! What a client counts, always: acquisitions, waits, holds, losses, releases and renewals, by kind of lock and class.
//!
//! No lock and no allocation is on the way of a count. The counters are relaxed: each is right by itself, and a reader
//! may see one before another that was counted earlier.

pub(crate) mod nouns;
pub(crate) mod of_client;
