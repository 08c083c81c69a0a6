//! What waits, counts or records, and holds nothing: the pieces of latch, barrier, limiter and counter.

pub(crate) mod noun;
pub(crate) mod watch;
