//! A lease that is not held any more, and why.

use std::fmt;

use crate::fence::Fence;
use crate::name::Name;

/// The lease cannot be relied on any more. Stop work on what it protects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("lease on `{name}` lost: {reason}")]
pub struct Lost {
    /// The lock's name.
    pub name: Name,
    /// The fencing token of the lost lease.
    pub fence: Option<Fence>,
    /// What happened.
    pub reason: LostReason,
}

/// What happened to a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostReason {
    /// The deadline passed; renewal was off, or this process did not run in time.
    RanOut,
    /// Another holder's token is there.
    TakenOver,
    /// The key is gone: it expired early, was deleted or evicted, or the server lost it.
    Vanished,
    /// Nobody answered until the deadline passed. The key may still exist for a moment.
    OutOfTouch,
    /// The longest hold that was asked for is over.
    HoldOver,
    /// The holder itself gave it up (release, drop, detach or close).
    GivenUp,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LostReason::RanOut => "its time ran out",
            LostReason::TakenOver => "another holder has it",
            LostReason::Vanished => "it is gone from the store",
            LostReason::OutOfTouch => "the store could not be reached in time",
            LostReason::HoldOver => "the longest hold allowed is over",
            LostReason::GivenUp => "it was given up",
        })
    }
}
