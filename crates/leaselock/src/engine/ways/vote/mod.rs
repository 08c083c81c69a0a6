//! Waiting for a lock of a quorum: rounds of votes.

mod round;
mod wakeups;
pub(super) mod way;
