//! Why a limiter allowed nothing.

use std::time::Duration;

use crate::base::error::{InvalidInput, noun_error};
use crate::base::span::rounded;

noun_error! {
    /// Why a call of a [`Limiter`](crate::limiter::Limiter) failed. Nothing is held, so there is nothing to release.
    ///
    /// After `Invalid` and `TimedOut` the caller must not act. After `Store` it is not known whether the rate allows it: a caller
    /// that does not act keeps the rate, and one that acts fails open.
    #[derive(Debug, Clone, thiserror::Error)]
    pub enum LimiterError of name: "The limiter's name." {
        /// The store did not reply, or refused. The permits may count as used. The rate is kept however often the caller asks
        /// again.
        Store leaves Permits,

        /// A name, a rate or a cost is out of its range. Nothing was sent.
        #[error(transparent)]
        Invalid(#[from] InvalidInput),

        /// The limiter would allow it later than the caller is willing to wait. Nothing was used or reserved.
        #[error("`{name}`: rate limit reached; retry in {}", rounded(*retry_after))]
        TimedOut {
            /// When it would allow this if no other client asked.
            retry_after: Duration,
        } => ErrorFacts::timed_out,
    }
}
