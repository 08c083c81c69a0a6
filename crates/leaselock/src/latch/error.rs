//! Why an arrival was not counted, or a wait ended.

use leaselock_fence::Name;

use crate::base::error::{InvalidInput, StoreError};

/// Why a call of a [`Latch`](crate::Latch) failed. A latch holds nothing, so there is nothing to release after any of
/// them.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LatchError {
    /// A name, a count or an option is out of its range. Nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),

    /// The wait ended before all had arrived. Those that have arrived stay counted.
    #[error(
        "`{name}` is still closed: {left} missing; arrived: {}",
        listed(arrived)
    )]
    StillClosed {
        /// The latch's name.
        name: Name,
        /// The parties that have arrived, in order.
        arrived: Vec<String>,
        /// How many are missing.
        left: u32,
    },

    /// Others say that there are so many parties. Nothing was changed.
    #[error("`{name}` is a latch for {count} parties by the word of those that have arrived")]
    Disagrees {
        /// The latch's name.
        name: Name,
        /// How many parties there are.
        count: u32,
    },

    /// All have arrived without this party, under other names. The latch is open.
    #[error("`{name}` is open without this party: {count} others have arrived")]
    Excess {
        /// The latch's name.
        name: Name,
        /// How many parties there are.
        count: u32,
    },

    /// The store did not reply, or refused. The party may be counted; to arrive again counts it once.
    #[error("`{name}`: {source}")]
    Store {
        /// The latch's name.
        name: Name,
        /// The store's error.
        source: StoreError,
    },
}

fn listed(parties: &[String]) -> String {
    match parties {
        [] => "none".to_owned(),
        parties => parties.join(", "),
    }
}
