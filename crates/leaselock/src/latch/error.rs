//! Why an arrival was not counted, or a wait ended.

use std::time::Duration;

use crate::base::error::{InvalidInput, noun_error};
use crate::base::span::rounded;

noun_error! {
    /// Why a call of a [`Latch`](crate::latch::Latch) failed. A latch holds nothing, so there is nothing to release after any of
    /// them.
    #[derive(Debug, Clone, thiserror::Error)]
    pub enum LatchError of name: "The latch's name." {
        /// The store did not reply, or refused. The party may be counted; to arrive again counts it once.
        #[error("`{name}`: {source}")]
        Store leaves Party,

        /// A name, a count or an option is out of its range. Nothing was sent.
        #[error(transparent)]
        Invalid(#[from] InvalidInput),

        /// The wait ended before all had arrived. Those that have arrived stay counted.
        #[error(
            "`{name}` is still closed after {}: {left} missing; arrived: {}",
            rounded(*waited),
            listed(arrived)
        )]
        TimedOut {
            /// How long the caller waited.
            waited: Duration,
            /// The parties that have arrived, in order.
            arrived: Vec<String>,
            /// How many are missing.
            left: u32,
        } => ErrorFacts::timed_out,

        /// Others say that there are so many parties. Nothing was changed.
        #[error("`{name}`: the parties that arrived use count {theirs}, this call uses {ours}")]
        Mismatch {
            /// How many parties the caller says that there are.
            ours: u32,
            /// How many there are.
            theirs: u32,
        },

        /// All have arrived without this party, under other names. The latch is open.
        #[error("`{name}` is open without this party: {count} others have arrived")]
        Excess {
            /// How many parties there are.
            count: u32,
        },
    }
}

fn listed(parties: &[String]) -> String {
    match parties {
        [] => "none".to_owned(),
        parties => parties.join(", "),
    }
}
