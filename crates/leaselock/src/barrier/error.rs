//! Why a barrier was not passed.

use std::time::Duration;

use crate::base::error::{InvalidInput, noun_error};
use crate::base::span::rounded;

noun_error! {
    /// Why a wait at a [`Barrier`](crate::barrier::Barrier) ended without passing it.
    #[derive(Debug, Clone, thiserror::Error)]
    pub enum BarrierError of name: "The barrier's name." {
        /// The store did not reply, or refused. The caller may count until its lease is over, and may have passed.
        #[error("`{name}`: {source}")]
        Store leaves Party,

        /// A name, a number of parties or a lease is out of its range. Nothing was sent.
        #[error(transparent)]
        Invalid(#[from] InvalidInput),

        /// The wait ended before all had arrived. The caller does not count any more.
        #[error("`{name}`: {arrived} of {parties} had arrived after {}", rounded(*waited))]
        TimedOut {
            /// How many waited at the last poll, the caller included.
            arrived: u32,
            /// How many pass together.
            parties: u32,
            /// How long the caller waited.
            waited: Duration,
        } => ErrorFacts::timed_out,

        /// Those who wait say that another number of parties pass together. The caller does not count.
        #[error("`{name}`: the parties that wait use count {theirs}, this call uses {ours}")]
        Mismatch {
            /// How many pass together, says the caller.
            ours: u32,
            /// How many pass together.
            theirs: u32,
        },

        /// The store does not know any more whether the caller passed with the others. Its lease was over, because it was
        /// frozen or the store was out of reach, or the server has lost its data.
        #[error(
            "`{name}`: the store does not know any more whether this party passed; generation {generation} is open"
        )]
        Missed {
            /// The generation that waits now.
            generation: u64,
        },
    }
}
