//! What a store said when it did not do what it was asked for.

use std::fmt;
use std::sync::Arc;

use crate::base::votes::{NodeVote, Tally};

/// What kind of trouble the store is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No connection, or it broke.
    Unreachable,
    /// No answer within the request time-out.
    TimedOut,
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
    /// The server answers but does not serve for another reason (`BUSY`, `MISCONF`, `MASTERDOWN`, too many clients).
    NotServing,
    /// No Sentinel watches servers under the name in the URL.
    UnknownService,
    /// Authentication is missing or wrong (`NOAUTH`, `WRONGPASS`).
    Auth,
    /// TLS was not agreed on: the server's certificate has expired, is for another name or from an unknown authority;
    /// or ours is wanted, not accepted or cannot be read. The message says which.
    Tls,
    /// The user may not do this (`NOPERM`), or the folder's permissions forbid it.
    Forbidden,
    /// Something that is no lock lies under one of the keys. It was not touched.
    WrongType,
    /// A lock file is damaged in both its copies, which is never taken for a free lock; or the fencing tokens or the
    /// queue of a lock are damaged, and nothing is granted. The message names what is damaged and how to mend it.
    Corrupt,
    /// No space for a new lock file.
    StorageFull,
    /// The folder for lock files cannot be created or found.
    CannotCreate,
    /// The folder lies on a file system that cannot carry locks.
    Unfit,
    /// The answer was not understood.
    Malformed,
    /// This store cannot do that.
    Unsupported,
    /// Strict mode is set up there for another longest ttl than this client's.
    Disagrees,
    /// A fault of leaselock itself.
    Internal,
}

/// What the store said. `kind()` is for decisions, the message and `source()` are for people.
///
/// Whether the request may have taken effect is part of each operation's own error: `Unknown` there means it may have.
#[derive(Clone)]
pub struct StoreError(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    /// The request may have been carried out although no answer came.
    maybe_applied: bool,
    /// The store is there: only others who used the same lock kept the request from its turn.
    contended: bool,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    /// What each of several servers said.
    tally: Option<Tally>,
}

impl StoreError {
    /// The request surely had no effect.
    pub(crate) fn refused(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::build(kind, message.into(), false, None)
    }

    /// The request may have had its effect.
    pub(crate) fn unknown(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::build(kind, message.into(), true, None)
    }

    /// The request had no turn within its time-out, because others used the same lock all the while.
    #[cfg(feature = "embedded")]
    pub(crate) fn contended(message: String) -> Self {
        StoreError(Arc::new(Inner {
            kind: ErrorKind::TimedOut,
            message,
            maybe_applied: false,
            contended: true,
            source: None,
            tally: None,
        }))
    }

    /// Without random numbers there is no token, and so nothing to ask of a store.
    pub(crate) fn no_random(error: getrandom::Error) -> Self {
        Self::refused(ErrorKind::Internal, format!("no random numbers: {error}"))
    }

    pub(crate) fn with_source(
        self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::build(
            self.0.kind,
            self.0.message.clone(),
            self.0.maybe_applied,
            Some(source.into()),
        )
    }

    fn build(
        kind: ErrorKind,
        message: String,
        maybe_applied: bool,
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        StoreError(Arc::new(Inner {
            kind,
            message,
            maybe_applied,
            contended: false,
            source,
            tally: None,
        }))
    }

    /// Too few of several servers have said the same.
    #[cfg(feature = "redis")]
    pub(crate) fn no_majority(kind: ErrorKind, tally: Tally, maybe_applied: bool) -> Self {
        StoreError(Arc::new(Inner {
            kind,
            message: tally.to_string(),
            maybe_applied,
            contended: false,
            source: None,
            tally: Some(tally),
        }))
    }

    pub(crate) fn tally(&self) -> Option<&Tally> {
        self.0.tally.as_ref()
    }

    /// What each node of a [`Quorum`](crate::Quorum) has said, when that is why it failed.
    pub fn votes(&self) -> &[NodeVote] {
        self.tally().map_or(&[], |tally| &tally.votes)
    }

    /// What kind of trouble.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The store is there, and others keep it busy.
    pub(crate) fn is_contention(&self) -> bool {
        self.0.contended
    }

    pub(crate) fn maybe_applied(&self) -> bool {
        self.0.maybe_applied
    }

    /// Trying the same again later makes sense; the others need a person.
    pub(crate) fn may_pass(&self) -> bool {
        use ErrorKind as K;
        matches!(
            self.0.kind,
            K::Unreachable
                | K::TimedOut
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

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreError({:?}: {})", self.0.kind, self.0.message)
    }
}

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
