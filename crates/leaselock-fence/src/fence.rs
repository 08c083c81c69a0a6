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
    /// The largest number that a grant can have. Above 2^53 a double, as scripts have them, would skip numbers.
    pub const MAX: Fence = Fence(8_999_999_999_999_999);

    /// Creates a token from a number that was issued earlier, such as one stored by the protected resource.
    pub const fn new(number: u64) -> Self {
        Fence(number)
    }

    /// Returns the number itself: microseconds since 1970 at the grant, or more.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
