//! An operation on which several servers vote.

use super::tally::{TallyVerdict, Votes};
use crate::base::error::StoreError;
use crate::script::{Answer, Call, Operation, Script};

/// An operation's behaviour on the nodes of a quorum.
///
/// The defaults: each node gets the very operation, and their replies are not combined.
pub(crate) trait Votable: Operation {
    /// True if it is repeated in the background on a node that does not confirm it.
    const CLEANS_UP: bool = false;

    fn on_a_node(&self) -> Call {
        self.call()
    }

    /// Reads a node's answer to that call.
    fn of_a_node(script: &Script, answer: &Answer) -> Result<Self::Reply, StoreError> {
        Self::read(script, answer)
    }

    /// Combines the nodes' replies.
    fn count(_votes: &Votes<Self::Reply>) -> TallyVerdict<Self::Reply> {
        TallyVerdict::Never
    }

    /// True if the node had what was to be cleaned up; otherwise that may still be on its way.
    fn is_found(_reply: &Self::Reply) -> bool {
        true
    }
}

/// Says for operations which function combines the nodes' replies.
macro_rules! counted {
    ($($operation:ty => $verdict:path),+ $(,)?) => {
        $(
            impl $crate::quorum::votable::Votable for $operation {
                fn count(
                    votes: &$crate::quorum::tally::Votes<Self::Reply>,
                ) -> $crate::quorum::tally::TallyVerdict<Self::Reply> {
                    $verdict(votes)
                }
            }
        )+
    };
}
pub(crate) use counted;
