//! The words that distinguish servers' errors.

use crate::base::error::ErrorKind;

/// The meaning of one word in a server's error.
pub(super) struct Meaning {
    pub(super) word: &'static str,
    pub(super) kind: ErrorKind,
    /// The remedy, where we know it.
    pub(super) advice: &'static str,
}

/// A table of meanings: word, kind and advice.
macro_rules! meanings {
    ($($word:literal $kind:ident: $advice:expr;)*) => {
        &[$(Meaning { word: $word, kind: ErrorKind::$kind, advice: $advice }),*]
    };
}

const LOGIN: &str = "the server wants a login: put it into the URL as redis://user:password@host, or redis://:password@host";
const WAITAOF: &str = "fsynced needs Redis 7.2 or later, or Valkey: use min_replicas here";
const CLUSTER: &str =
    "the server is a node of a cluster: name it as redis+cluster://, with some of its nodes";
const NO_LOCK: &str = "something that is no lock lies under the key: choose another name or prefix, or delete the key if no program needs it";

/// Errors by their code word.
///
/// All of these come before any write: either the server refuses the whole command, or it refuses the first write of a
/// script. Our scripts check types before they write.
pub(super) const REFUSALS: &[Meaning] = meanings! {
    "LOADING" Loading: "the server is loading its data";
    "OOM" OutOfMemory: "the server is over its memory limit";
    "READONLY" ReadOnly: "the server is a replica: name the primary in the URL";
    "NOREPLICAS" NoReplicas: "the server has fewer replicas than its min-replicas-to-write";
    "MISCONF" NotServing: "the server cannot save to its disk and refuses writes";
    "MASTERDOWN" NotServing: "the server is a replica without its primary";
    "BUSY" NotServing: "the server is busy with a slow script of another client";
    "CLUSTERDOWN" ClusterDown: "the cluster is down";
    "MOVED" ClusterDown: CLUSTER;
    "ASK" ClusterDown: CLUSTER;
    "TRYAGAIN" ClusterDown: "the cluster is moving these keys";
    "CROSSSLOT" Unsupported: "in a cluster all keys of one request must have the same part in braces";
    "NOSCRIPT" NotServing: "the server forgot the script";
    "NOAUTH" Auth: LOGIN;
    "WRONGPASS" Auth: "the user or password in the URL is wrong";
    "DENIED" Forbidden: "the server accepts no connection from another machine (protected mode)";
    "WRONGTYPE" WrongType: NO_LOCK;
};

/// Errors that differ by their wording only.
pub(super) const PHRASES: &[Meaning] = meanings! {
    "WAITAOF cannot be used when numlocal" Unsupported:
        "the server keeps no append-only file: set `appendonly yes`, or ask for the files of replicas only";
    "command 'WAITAOF'" Unsupported: WAITAOF;
    "command `WAITAOF`" Unsupported: WAITAOF;
    "max number of clients reached" NotServing: "the server has too many clients";
    "AUTH <password> called without any password" Auth: "the server has no password: leave it out of the URL";
    "invalid password" Auth: "the password in the URL is wrong";
    "DB index is out of range" Unsupported: "the server does not have the database in the URL";
    "Script killed by user" NotServing: "an operator stopped the script (SCRIPT KILL)";
    "unknown command" Unsupported: "the server does not know a command that is needed; it may be renamed";
    "cluster support disabled" Unsupported: "the server is no node of a cluster: name it as redis://";
    "Error compiling script" Internal: "the server could not read the script";
};

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
