//! What each node of a quorum has said, for errors and people.

use std::error::Error;
use std::time::Duration;
use std::{fmt, io};

use super::error::{ErrorKind, StoreError};

/// One node of a [`Quorum`](crate::Quorum) and its vote. Shown in words, without the node's address.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NodeVote {
    /// The node's address, without its login.
    pub node: String,
    /// What it said.
    pub vote: Vote,
    /// What kept it from voting: of the kind `Unreachable` when there was no connection to it, `TimedOut` when it has
    /// not answered [`within`](NodeVote::within). `None` when it answered.
    pub error: Option<StoreError>,
    /// How long it had to answer.
    pub within: Duration,
}

impl NodeVote {
    /// Why there is no connection, without the address.
    fn cause(&self, error: &StoreError) -> String {
        let met = error.source().and_then(|source| source.downcast_ref());
        let met = met.map(|met: &io::Error| {
            let text = met.to_string();
            let mut letters = text.split(" (os error").next().unwrap_or_default().chars();
            let first = letters.next().map(|first| first.to_ascii_lowercase());
            first.into_iter().chain(letters).collect()
        });
        met.unwrap_or_else(|| error.to_string().replace(&format!(" to {}", self.node), ""))
    }
}

impl fmt::Display for NodeVote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.vote, &self.error) {
            (Vote::Silent, Some(error)) if error.kind() == ErrorKind::Unreachable => {
                write!(f, "unreachable ({})", self.cause(error))
            }
            (Vote::Silent, _) => {
                let within = self.within.as_millis();
                write!(f, "silent (no answer in {within} ms)")
            }
            (Vote::Failed(_), Some(error)) => write!(f, "{}: {error}", self.vote),
            _ => self.vote.fmt(f),
        }
    }
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
    /// No connection, or no answer: [`NodeVote::error`] tells which.
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
            .try_for_each(|one| write!(f, "; {}: {one}", one.node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(vote: Vote, error: Option<StoreError>) -> NodeVote {
        NodeVote {
            node: "redis://a:1/0".to_owned(),
            vote,
            error,
            within: Duration::from_millis(250),
        }
    }

    #[test]
    fn a_tally_names_each_node_and_what_it_said() {
        let rest = Duration::from_millis(12_001);
        let tally = Tally {
            granted: 1,
            needed: 2,
            votes: vec![
                said(Vote::Granted, None),
                said(Vote::NotVoting { rest }, None),
                said(Vote::Silent, None),
            ],
        };
        assert_eq!(
            tally.to_string(),
            "no majority of 3 nodes: 2 needed; redis://a:1/0: granted; redis://a:1/0: came up lately and votes again \
             in 13 s; redis://a:1/0: silent (no answer in 250 ms)"
        );
    }

    #[test]
    fn what_kept_a_node_from_voting_is_said_in_its_words_and_its_address_once() {
        let refused = |kind, message: &str| StoreError::refused(kind, message);
        let met = io::Error::from_raw_os_error(rustix::io::Errno::CONNREFUSED.raw_os_error());
        for (error, words) in [
            (
                refused(ErrorKind::Unreachable, "no connection to redis://a:1/0: …")
                    .with_source(met),
                "unreachable (connection refused)",
            ),
            (
                refused(
                    ErrorKind::Unreachable,
                    "the connection to redis://a:1/0 broke",
                ),
                "unreachable (the connection broke)",
            ),
            (
                refused(
                    ErrorKind::TimedOut,
                    "no connection to redis://a:1/0 in time",
                ),
                "silent (no answer in 250 ms)",
            ),
            (
                refused(ErrorKind::OutOfMemory, "the memory is full"),
                "failed (OutOfMemory): the memory is full",
            ),
        ] {
            let one = said(Vote::of_failure(error.kind()), Some(error));
            assert_eq!(one.to_string(), words);
        }
    }
}
