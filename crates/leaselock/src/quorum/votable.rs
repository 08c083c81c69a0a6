//! An operation on which several servers vote.

#[cfg(feature = "redis")]
use super::tally::{Verdict, Votes};
#[cfg(feature = "redis")]
use crate::base::error::StoreError;
use crate::script::Operation;
#[cfg(feature = "redis")]
use crate::script::{Answer, Call};

/// What the nodes of a quorum do with an operation. The defaults: each node is sent the very operation, and they decide
/// nothing together.
#[cfg(feature = "redis")]
pub(crate) trait Votable: Operation {
    /// A node that does not confirm it is asked again, in the background.
    const CLEANS_UP: bool = false;

    /// What each node is sent.
    fn on_a_node(&self) -> Call {
        self.call()
    }

    /// What a node answers to that.
    fn of_a_node(answer: &Answer) -> Result<Self::Reply, StoreError> {
        Self::read(answer)
    }

    /// What the nodes say together.
    fn count(_votes: &Votes<Self::Reply>) -> Verdict<Self::Reply> {
        Verdict::Never
    }

    /// What was to be cleaned up was there. Otherwise it may still be on its way.
    fn is_found(_reply: &Self::Reply) -> bool {
        true
    }
}

/// Without servers there is nothing to vote.
#[cfg(not(feature = "redis"))]
pub(crate) trait Votable: Operation {}
#[cfg(not(feature = "redis"))]
impl<O: Operation> Votable for O {}
