//! The fencing token.

use std::fmt;

/// The fencing token: a number that grows with every grant of one name.
///
/// Pass it to the resource that the lease protects. The resource must refuse a number smaller than one it has seen, on
/// reads as well as on writes. Extensions of a lease keep its number. *How to do distributed locking* (Kleppmann, 2016)
/// explains why a lock alone is not enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// The bound above every fencing token, as in `lua/fence.lua`.
    ///
    /// 2^53, above which doubles skip numbers, less the longest range.
    pub(crate) const END: u64 = (1 << 53) - Fence::RANGE_MAX;
    /// How many fencing tokens one grant may reserve.
    pub(crate) const RANGE_MAX: u64 = 1 << 20;

    /// Returns the first and last number in a store, if a grant can have written them.
    ///
    /// Otherwise they are damaged.
    pub(crate) fn of_a_grant(first: u64, last: u64) -> Option<(u64, u64)> {
        let range = last.checked_sub(first)?;
        (last < Fence::END && range < Fence::RANGE_MAX).then_some((first, last))
    }

    /// Creates a token from a number that was issued earlier, such as one stored by the protected resource.
    pub const fn new(number: u64) -> Self {
        Fence(number)
    }

    /// Returns the number itself: microseconds since 1970 at the grant, or more.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Reads a script's answer: `0` stands for a lease without fencing.
    pub(crate) const fn from_answer(number: u64) -> Option<Self> {
        if number == 0 {
            None
        } else {
            Some(Fence(number))
        }
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
