//! Kinds of trouble with a store.

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
