//! The words that distinguish servers' errors.

use crate::base::error::ErrorKind;

/// The meaning of one word in a server's error.
pub(super) struct Meaning {
    pub(super) word: &'static str,
    pub(super) kind: ErrorKind,
    /// The remedy, where we know it.
    pub(super) advice: &'static str,
}

const fn meaning(word: &'static str, kind: ErrorKind, advice: &'static str) -> Meaning {
    Meaning { word, kind, advice }
}

const LOGIN: &str = "the server wants a login: put it into the URL as redis://user:password@host, or redis://:password@host";
const WAITAOF: &str = "fsynced needs Redis 7.2 or later, or Valkey: use min_replicas here";
const CLUSTER: &str =
    "the server is a node of a cluster: name it as redis+cluster://, with some of its nodes";

/// Errors by their code word.
///
/// All of these come before any write: either the server refuses the whole command, or it refuses the first write of a
/// script. Our scripts check types before they write.
pub(super) const REFUSALS: &[Meaning] = &[
    meaning(
        "LOADING",
        ErrorKind::Loading,
        "the server is loading its data",
    ),
    meaning(
        "OOM",
        ErrorKind::OutOfMemory,
        "the server is over its memory limit",
    ),
    meaning(
        "READONLY",
        ErrorKind::ReadOnly,
        "the server is a replica: name the primary in the URL",
    ),
    meaning(
        "NOREPLICAS",
        ErrorKind::NoReplicas,
        "the server has fewer replicas than its min-replicas-to-write",
    ),
    meaning(
        "MISCONF",
        ErrorKind::NotServing,
        "the server cannot save to its disk and refuses writes",
    ),
    meaning(
        "MASTERDOWN",
        ErrorKind::NotServing,
        "the server is a replica without its primary",
    ),
    meaning(
        "BUSY",
        ErrorKind::NotServing,
        "the server is busy with somebody's slow script",
    ),
    meaning("CLUSTERDOWN", ErrorKind::ClusterDown, "the cluster is down"),
    meaning("MOVED", ErrorKind::ClusterDown, CLUSTER),
    meaning("ASK", ErrorKind::ClusterDown, CLUSTER),
    meaning(
        "TRYAGAIN",
        ErrorKind::ClusterDown,
        "the cluster is moving these keys",
    ),
    meaning(
        "CROSSSLOT",
        ErrorKind::Unsupported,
        "in a cluster all keys of one request must have the same part in braces",
    ),
    meaning(
        "NOSCRIPT",
        ErrorKind::NotServing,
        "the server forgot the script",
    ),
    meaning("NOAUTH", ErrorKind::Auth, LOGIN),
    meaning(
        "WRONGPASS",
        ErrorKind::Auth,
        "the user or password in the URL is wrong",
    ),
    meaning(
        "DENIED",
        ErrorKind::Forbidden,
        "the server lets nobody in from another machine (protected mode)",
    ),
    meaning(
        "WRONGTYPE",
        ErrorKind::WrongType,
        "something that is no lock lies under the key",
    ),
];

/// Errors that differ by their wording only.
pub(super) const PHRASES: &[Meaning] = &[
    meaning(
        "WAITAOF cannot be used when numlocal",
        ErrorKind::Unsupported,
        "the server keeps no append-only file: set `appendonly yes`, or ask for the files of replicas only",
    ),
    meaning("command 'WAITAOF'", ErrorKind::Unsupported, WAITAOF),
    meaning("command `WAITAOF`", ErrorKind::Unsupported, WAITAOF),
    meaning(
        "max number of clients reached",
        ErrorKind::NotServing,
        "the server has too many clients",
    ),
    meaning(
        "AUTH <password> called without any password",
        ErrorKind::Auth,
        "the server has no password: leave it out of the URL",
    ),
    meaning(
        "invalid password",
        ErrorKind::Auth,
        "the password in the URL is wrong",
    ),
    meaning(
        "DB index is out of range",
        ErrorKind::Unsupported,
        "the server does not have the database in the URL",
    ),
    meaning(
        "Script killed by user",
        ErrorKind::NotServing,
        "somebody stopped the script",
    ),
    meaning(
        "unknown command",
        ErrorKind::Unsupported,
        "the server does not know a command that is needed; it may be renamed",
    ),
    meaning(
        "cluster support disabled",
        ErrorKind::Unsupported,
        "the server is no node of a cluster: name it as redis://",
    ),
    meaning(
        "Error compiling script",
        ErrorKind::Internal,
        "the server could not read the script",
    ),
];

/// Errors about commands that the user may not run.
///
/// Outside of a script nothing has happened. Inside, an earlier command of the same script may have been allowed to
/// write.
pub(super) const FORBIDDEN: &[&str] = &[
    "NOPERM",
    "ACL failure in script",
    "The user executing the script",
];
pub(super) const FORBIDDEN_ADVICE: &str = "the user may not do this: see its ACL";
/// What servers since 6.2 add to an error that a script raised.
pub(super) const FROM_A_SCRIPT: &[&str] = &[
    "Error running script",
    "@user_script",
    "in script:",
    " script: ",
    "from script",
];
