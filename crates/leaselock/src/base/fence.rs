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
    /// A double above 2^53 skips numbers.
    pub(crate) const END: u64 = 9_000_000_000_000_000;

    /// Returns the token of an id of the key that mints them, `ms-count`; `None` for an id that no grant writes.
    pub(crate) fn of_id(id: &str) -> Option<Self> {
        let (ms, count) = id.split_once('-')?;
        let (ms, count): (u64, u64) = (ms.parse().ok()?, count.parse().ok()?);
        let number = ms.checked_mul(1000)?.checked_add(count)?;
        (count < 1000 && number < Fence::END).then_some(Fence(number))
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
