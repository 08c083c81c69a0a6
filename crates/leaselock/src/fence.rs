//! The fencing token.

use std::fmt;

/// The fencing token: a number that grows with every grant of one name.
///
/// Hand it to the resource that the lease protects and let the resource refuse a number smaller than one it has seen,
/// on reads as well as on writes. Extensions of a lease keep its number. See
/// *How to do distributed locking* (Kleppmann, 2016) for why a lock alone is not enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// Every fencing token is below it, as in `lua/fence.lua`: 2^53, above which doubles skip numbers, less the longest
    /// range.
    pub(crate) const END: u64 = (1 << 53) - (1 << 20);

    /// From a number that was issued earlier, such as one stored by the protected resource.
    pub const fn new(number: u64) -> Self {
        Fence(number)
    }

    /// The number itself: microseconds since 1970 at the grant, or more.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// What scripts answer: `0` stands for a lease without fencing.
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
