//! Why a limiter allowed nothing.

use std::time::Duration;

use leaselock_fence::Name;

use crate::base::error::{InvalidInput, StoreError};

/// Why a call of a [`Limiter`](crate::Limiter) failed. Nothing is held, so there is nothing to release.
///
/// After `Invalid` and `Limited` the caller must not act. After `Store` it is not known whether the rate allows it: a caller
/// that does not act keeps the rate, and one that acts fails open.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LimiterError {
    /// A name, a rate or a cost is out of its range. Nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),

    /// The limiter would allow it later than the caller is willing to wait. Nothing was used or reserved.
    #[error("`{name}` is limited: it allows this in {retry_after:?}")]
    Limited {
        /// The limiter's name.
        name: Name,
        /// When it would allow this if no other client asked.
        retry_after: Duration,
    },

    /// The store did not reply, or refused. The permits may count as used. The rate is kept however often the caller asks
    /// again.
    #[error("`{name}`: {source}")]
    Store {
        /// The limiter's name.
        name: Name,
        /// The store's error.
        source: StoreError,
    },
}
