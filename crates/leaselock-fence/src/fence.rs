//! The fencing token.

use std::fmt;
use std::str::FromStr;

use crate::invalid_input::InvalidInput;

/// The fencing token: a number that grows with every grant of one name.
///
/// Pass it to the resource that the lease protects. The resource must refuse a number smaller than one it has seen, on
/// reads as well as on writes. Extensions of a lease keep its number. *How to do distributed locking* (Kleppmann, 2016)
/// explains why a lock alone is not enough.
///
/// With the feature `serde` it is a number. Readers of JSON that have doubles only, such as JavaScript, read it exactly,
/// because no grant has a larger one than [`MAX`](Fence::MAX).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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

impl From<u64> for Fence {
    fn from(number: u64) -> Self {
        Fence(number)
    }
}

impl From<Fence> for u64 {
    fn from(fence: Fence) -> Self {
        fence.0
    }
}

impl FromStr for Fence {
    type Err = InvalidInput;

    /// Reads the number as it was shown.
    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        let number = text.parse();
        number.map(Fence).map_err(|_| {
            InvalidInput::new("a fencing token is a whole number, such as 1785000000123456")
        })
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fencing_token_survives_the_way_through_text_and_nothing_else_is_one() {
        for fence in [Fence::from(0), Fence::new(7), Fence::MAX] {
            assert_eq!(fence.to_string().parse(), Ok(fence));
        }
        for bad in ["", "-1", "7 ", "1e3", "18446744073709551616"] {
            let refusal = bad.parse::<Fence>().unwrap_err().to_string();
            assert!(refusal.contains("a whole number"), "{bad:?}: {refusal}");
        }
    }
}
