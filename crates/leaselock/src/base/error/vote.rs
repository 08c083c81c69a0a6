//! The vote of one node of a quorum.

use std::fmt;
use std::time::Duration;

use super::kind::ErrorKind;
use crate::base::process::Process;
use crate::base::span::rounded;

/// The vote of a node of a majority.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Vote {
    /// The lock was free there. The vote has been withdrawn.
    Granted,
    /// Another client holds it there.
    Busy {
        /// That process, of which the id of its client is known; `None` when another library holds it.
        holder: Option<Process>,
    },
    /// It started too recently to know what it granted before, and votes again after `rest`.
    NotVoting {
        /// How long it still stays out of votes.
        rest: Duration,
    },
    /// No connection, or no answer: [`NodeVote::error`](crate::error::NodeVote::error) tells which.
    Silent,
    /// It replied with a refusal.
    Failed(ErrorKind),
    /// It is the same server as a node before it, and both have one vote.
    SameServer,
    /// It replied, but too few nodes have replied the same.
    Answered,
}

impl Vote {
    pub(crate) fn of_failure(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::NoReply | ErrorKind::Unreachable => Vote::Silent,
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
                let up = Duration::from_secs((*rest + Duration::from_millis(999)).as_secs());
                write!(f, "started recently and votes again in {}", rounded(up))
            }
            Vote::Silent => f.write_str("silent"),
            Vote::Failed(_) => f.write_str("refused"),
            Vote::SameServer => f.write_str("the same server as another"),
            Vote::Answered => f.write_str("answered"),
        }
    }
}
