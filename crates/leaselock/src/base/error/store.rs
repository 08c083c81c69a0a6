//! The error of a store, and what each node of a quorum replied.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use crate::base::process::Process;
use crate::base::shorthand::debug_as;
use crate::base::span::rounded;

/// The error of a store.
///
/// `kind()` is for decisions, the message and `source()` are for human readers. Whether the request may have taken
/// effect is part of each operation's own error: `Unknown` there means it may have.
#[derive(Clone)]
pub struct StoreError(Arc<StoreErrorParts>);

/// What a store answers: most of what asks one has no other error.
pub(crate) type Result<T, E = StoreError> = std::result::Result<T, E>;

struct StoreErrorParts {
    kind: ErrorKind,
    message: String,
    /// True if the request may have been carried out although no reply came.
    maybe_applied: bool,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    detail: Detail,
}

/// What else an operation learns from the error.
pub(crate) enum Detail {
    Nothing,
    /// The store is up, and only other users of the same lock delayed the request.
    Contention,
    /// The reply of each of several servers.
    Tally(Tally),
    /// There are so many permits, and more were asked for.
    TooMany {
        permits: u32,
    },
    /// The lease that was to be changed is over.
    Gone {
        /// True if another client holds the lock.
        is_taken: bool,
    },
}

/// Creates the error of a request that surely had no effect, by its kind and its message:
/// `refusal!(NoReply: "no connection to {place} in time")`.
macro_rules! refusal {
    ($kind:ident: $($message:tt)+) => {
        $crate::base::StoreError::refused($crate::base::ErrorKind::$kind, format!($($message)+))
    };
}
pub(crate) use refusal;

impl StoreError {
    /// Creates the error of a request that surely had no effect.
    pub(crate) fn refused(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::build(kind, message.into(), |_| {})
    }

    /// Creates the error of a request that may have had its effect.
    pub(crate) fn unknown(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::build(kind, message.into(), |inner| inner.maybe_applied = true)
    }

    /// Creates the error of a request that timed out because other clients used the same lock.
    pub(crate) fn contended(message: String) -> Self {
        Self::build(ErrorKind::NoReply, message, |inner| {
            inner.detail = Detail::Contention;
        })
    }

    /// Creates the error of a failed random source: without a token no request can be made.
    pub(crate) fn no_random(error: getrandom::Error) -> Self {
        Self::refused(ErrorKind::Internal, format!("no random numbers: {error}"))
    }

    pub(crate) fn with_source(
        self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::build(self.0.kind, self.0.message.clone(), |inner| {
            (inner.maybe_applied, inner.source) = (self.0.maybe_applied, Some(source.into()));
        })
    }

    /// Creates the error of too few equal replies.
    pub(crate) fn no_majority(kind: ErrorKind, tally: Tally, maybe_applied: bool) -> Self {
        Self::build(kind, tally.to_string(), |inner| {
            (inner.maybe_applied, inner.detail) = (maybe_applied, Detail::Tally(tally));
        })
    }

    /// Creates the error of a request for more permits than there are.
    pub(crate) fn too_many(permits: u32) -> Self {
        let message = format!("there are {permits} permits");
        Self::build(ErrorKind::Mismatch, message, |inner| {
            inner.detail = Detail::TooMany { permits };
        })
    }

    /// Creates the error of a change of a lease that is over. `is_taken`: another client holds the lock.
    pub(crate) fn gone(is_taken: bool) -> Self {
        let message = "the lease is over".to_owned();
        Self::build(ErrorKind::Internal, message, |inner| {
            inner.detail = Detail::Gone { is_taken };
        })
    }

    fn build(kind: ErrorKind, message: String, differs: impl FnOnce(&mut StoreErrorParts)) -> Self {
        let mut inner = StoreErrorParts {
            kind,
            message,
            maybe_applied: false,
            source: None,
            detail: Detail::Nothing,
        };
        differs(&mut inner);
        StoreError(Arc::new(inner))
    }

    pub(crate) fn detail(&self) -> &Detail {
        &self.0.detail
    }

    /// Returns the vote of each node of a majority, when the votes are why it failed.
    pub fn votes(&self) -> &[NodeVote] {
        match &self.0.detail {
            Detail::Tally(tally) => &tally.votes,
            _ => &[],
        }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// True if the store is up and other clients keep it busy.
    pub(crate) fn is_contention(&self) -> bool {
        matches!(self.0.detail, Detail::Contention)
    }

    pub(crate) fn maybe_applied(&self) -> bool {
        self.0.maybe_applied
    }

    /// Returns true if a later retry can succeed; other errors need an operator.
    pub fn is_transient(&self) -> bool {
        use ErrorKind as K;
        matches!(
            self.0.kind,
            K::Unreachable
                | K::NoReply
                | K::Loading
                | K::OutOfMemory
                | K::ReadOnly
                | K::NoReplicas
                | K::ClusterDown
                | K::NotServing
                | K::StorageFull
        )
    }
}

/// The same kind, the same message, and the same certainty about the request.
impl PartialEq for StoreError {
    fn eq(&self, other: &Self) -> bool {
        let said = |error: &Self| (error.0.kind, error.0.maybe_applied);
        said(self) == said(other) && self.0.message == other.0.message
    }
}

impl Eq for StoreError {}

debug_as!(StoreError, it => "StoreError({:?}: {})", it.0.kind, it.0.message);

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| &**source as _)
    }
}

/// One node of a majority and its vote. `Display` describes it, without the node's address.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NodeVote {
    /// The node's address, without its login.
    pub node: String,
    /// Its vote.
    pub vote: Vote,
    /// Why it did not vote; `None` when it replied.
    ///
    /// Of the kind `Unreachable` when there was no connection to it, `TimedOut` when it has not replied
    /// [`within`](NodeVote::within).
    pub error: Option<StoreError>,
    /// How long it had to reply.
    pub within: Duration,
}

impl NodeVote {
    /// Describes why there is no connection, without the address.
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
                write!(f, "silent (no reply in {})", rounded(self.within))
            }
            (Vote::Failed(_), Some(error)) => write!(f, "{}: {error}", self.vote),
            _ => self.vote.fmt(f),
        }
    }
}

/// The replies of all nodes, when no majority has given the same.
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

/// The kind of a store error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No connection, or it broke.
    Unreachable,
    /// No reply within the request timeout.
    NoReply,
    /// The server is loading its data (`LOADING`).
    Loading,
    /// The server is over its memory limit and refuses writes (`OOM`).
    OutOfMemory,
    /// A replica, or a primary that was demoted (`READONLY`).
    ReadOnly,
    /// Fewer replicas than `min-replicas-to-write` (`NOREPLICAS`).
    NoReplicas,
    /// The cluster does not serve this slot (`CLUSTERDOWN`, `MOVED`, `TRYAGAIN` …).
    ClusterDown,
    /// The server replies but does not serve, for another reason.
    ///
    /// `BUSY`, `MISCONF`, `MASTERDOWN`, too many clients.
    NotServing,
    /// No Sentinel watches servers under the name in the URL.
    UnknownService,
    /// Authentication is missing or wrong (`NOAUTH`, `WRONGPASS`).
    Auth,
    /// The TLS handshake failed.
    ///
    /// The server's certificate has expired, is for another name or from an unknown authority. Or the server requires
    /// ours, refuses it, or ours cannot be read. The message says which.
    Tls,
    /// The user may not do this (`NOPERM`), or the folder's permissions forbid it.
    Forbidden,
    /// One of the keys holds a value that is not a lock. It was not touched.
    WrongType,
    /// Lock data is damaged.
    ///
    /// Either both copies in a lock file, which is never taken for a free lock; or the fencing tokens or the queue of a
    /// lock, and then nothing is granted. The message names what is damaged and the remedy.
    Corrupt,
    /// No space for a new lock file.
    StorageFull,
    /// The folder for lock files cannot be created or found.
    CannotCreate,
    /// The folder is on a file system that cannot carry locks.
    UnsupportedFilesystem,
    /// The reply was not understood.
    Malformed,
    /// This store does not support the operation.
    Unsupported,
    /// Strict mode is set up there with another longest ttl than this client's.
    Mismatch,
    /// A bug of leaselock itself.
    Internal,
}

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
            "no majority of 3 nodes: 2 needed; redis://a:1/0: granted; redis://a:1/0: started recently and votes again \
             in 13 s; redis://a:1/0: silent (no reply in 250 ms)"
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
                refused(ErrorKind::NoReply, "no connection to redis://a:1/0 in time"),
                "silent (no reply in 250 ms)",
            ),
            (
                refused(ErrorKind::OutOfMemory, "the memory is full"),
                "refused: the memory is full",
            ),
        ] {
            let one = said(Vote::of_failure(error.kind()), Some(error));
            assert_eq!(one.to_string(), words);
        }
    }
}
