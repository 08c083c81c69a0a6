//! Waiting for a lock of a quorum: rounds of votes.

mod round;
pub(super) mod way;
