//! Kinds of store errors.

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
