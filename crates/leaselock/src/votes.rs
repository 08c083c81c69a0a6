//! What each node of a quorum has said, for errors and people.

use std::fmt;
use std::time::Duration;

use crate::error::ErrorKind;

/// One node of a [`Quorum`](crate::Quorum) and its vote.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeVote {
    /// The node's address, without its login.
    pub node: String,
    /// What it said.
    pub vote: Vote,
}

/// What a node of a [`Quorum`](crate::Quorum) has said.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Vote {
    /// The lock was free there. The vote has been taken back.
    Granted,
    /// Another holds it there.
    Busy {
        /// The id of the client that does; `None` when a foreign library does.
        holder: Option<String>,
    },
    /// It came up too lately to know what it granted before, and votes again after `rest`.
    NotVoting {
        /// How long it still stays out.
        rest: Duration,
    },
    /// No answer, or no connection.
    Silent,
    /// It answered with a refusal.
    Failed(ErrorKind),
    /// It is the same server as a node before it, and both have one vote.
    SameServer,
    /// It has answered, and too few have answered the same.
    Answered,
}

impl Vote {
    #[cfg(feature = "redis")]
    pub(crate) fn of_failure(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::TimedOut | ErrorKind::Unreachable => Vote::Silent,
            other => Vote::Failed(other),
        }
    }
}

impl fmt::Display for Vote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Vote::Granted => f.write_str("granted"),
            Vote::Busy { .. } => f.write_str("busy"),
            Vote::NotVoting { rest } => {
                let seconds = rest.as_millis().div_ceil(1000);
                write!(f, "came up lately and votes again in {seconds} s")
            }
            Vote::Silent => f.write_str("silent"),
            Vote::Failed(kind) => write!(f, "failed ({kind:?})"),
            Vote::SameServer => f.write_str("the same server as another"),
            Vote::Answered => f.write_str("answered"),
        }
    }
}

/// A question to all nodes on which no majority has said the same.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    pub(crate) granted: usize,
    pub(crate) needed: usize,
    pub(crate) votes: Vec<NodeVote>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.votes.len();
        write!(f, "no majority of {nodes} nodes: {} needed", self.needed)?;
        self.votes
            .iter()
            .try_for_each(|one| write!(f, "; {}: {}", one.node, one.vote))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_names_each_node_and_what_it_said() {
        let vote = |node: &str, vote| NodeVote {
            node: node.to_owned(),
            vote,
        };
        let rest = Duration::from_millis(12_001);
        let tally = Tally {
            granted: 1,
            needed: 2,
            votes: vec![
                vote("redis://a:1", Vote::Granted),
                vote("redis://b:1", Vote::NotVoting { rest }),
                vote("redis://c:1", Vote::Failed(ErrorKind::OutOfMemory)),
            ],
        };
        assert_eq!(
            tally.to_string(),
            "no majority of 3 nodes: 2 needed; redis://a:1: granted; redis://b:1: came up lately and votes again in \
             13 s; redis://c:1: failed (OutOfMemory)"
        );
    }
}
