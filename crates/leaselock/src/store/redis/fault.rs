//! What went wrong, in our terms: which kind of trouble, and whether the request may have had its effect.

use redis::{RedisError, ServerError};

use crate::error::{ErrorKind, StoreError};

/// What one word in a server's error means.
struct Meaning {
    word: &'static str,
    kind: ErrorKind,
    /// What would be right, where we know it.
    advice: &'static str,
}

const fn meaning(word: &'static str, kind: ErrorKind, advice: &'static str) -> Meaning {
    Meaning { word, kind, advice }
}

const LOGIN: &str = "the server wants a login: put it into the URL as redis://user:password@host, or redis://:password@host";
const CLUSTER: &str =
    "the server is a node of a cluster, and this version speaks to single servers";

/// Errors by their code word. All of these come before anything was written: either the server refuses the whole
/// command, or it refuses the first write of a script, and our scripts check types before they write.
const REFUSALS: &[Meaning] = &[
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
    meaning("CROSSSLOT", ErrorKind::Unsupported, CLUSTER),
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

/// Errors that are told apart by their wording only.
const PHRASES: &[Meaning] = &[
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
        "Error compiling script",
        ErrorKind::Internal,
        "the server could not read the script",
    ),
];

/// Commands that the user may not use. Outside of a script nothing has happened; inside, an earlier command of the
/// same script may have been allowed to write.
const FORBIDDEN: &[&str] = &[
    "NOPERM",
    "ACL failure in script",
    "The user executing the script",
];
const FORBIDDEN_ADVICE: &str = "the user may not do this: see its ACL";
/// What servers since 6.2 put around an error that a script raised.
const FROM_A_SCRIPT: &[&str] = &[
    "Error running script",
    "@user_script",
    "in script:",
    " script: ",
    "from script",
];

/// The whole line that the server sent.
pub(super) fn line(error: &ServerError) -> String {
    let mut line = error.code().to_owned();
    if let Some(details) = error.details() {
        line.push(' ');
        line.push_str(details);
    }
    line
}

/// What an error line of the server means for the request that it answers.
pub(super) fn from_line(line: &str) -> StoreError {
    let raised = FROM_A_SCRIPT.iter().any(|mark| line.contains(mark));
    if FORBIDDEN.iter().any(|mark| line.contains(mark)) {
        let message = explained(FORBIDDEN_ADVICE, line);
        let certainty = if raised || line.contains(FORBIDDEN[2]) {
            StoreError::unknown
        } else {
            StoreError::refused
        };
        return certainty(ErrorKind::Forbidden, message);
    }
    if line.contains("command called from") {
        let message = explained(
            "a script needs a command that the server does not know",
            line,
        );
        return StoreError::unknown(ErrorKind::Unsupported, message);
    }
    let by_phrase = || PHRASES.iter().find(|phrase| line.contains(phrase.word));
    if let Some(meaning) = by_word(line).or_else(by_phrase) {
        return StoreError::refused(meaning.kind, explained(meaning.advice, line));
    }
    let (kind, what) = if raised {
        (ErrorKind::Internal, "a script failed")
    } else {
        (ErrorKind::NotServing, "the server answered with an error")
    };
    StoreError::unknown(kind, explained(what, line))
}

/// The first code word, wherever it stands: old servers wrap it in the place in the script where it was raised.
fn by_word(line: &str) -> Option<&'static Meaning> {
    let mut words = line
        .split([' ', ':'])
        .map(|word| word.trim_start_matches('-'));
    words.find_map(|word| REFUSALS.iter().find(|meaning| meaning.word == word))
}

/// The advice and the server's own words.
fn explained(advice: &str, line: &str) -> String {
    format!("{advice} (it said: {})", quoted(line))
}

/// Somebody else's words, safe to print: no control characters, not endless, and without the arguments that servers
/// repeat for a command that they do not know, for these hold tokens and passwords.
pub(super) fn quoted(text: &str) -> String {
    const LONGEST: usize = 200;
    let text = text
        .split("with args beginning with")
        .next()
        .unwrap_or_default()
        .trim_end_matches([' ', ',']);
    let mut shown = String::new();
    for c in text.chars().take(LONGEST) {
        shown.push(if c.is_control() { ' ' } else { c });
    }
    if text.chars().count() > LONGEST {
        shown.push('…');
    }
    shown
}

/// What a failure of the connection means for a request that was handed to it.
pub(super) fn from_connection(error: RedisError, place: &str) -> StoreError {
    let (kind, message) = broken(&error, place);
    StoreError::unknown(kind, message).with_source(error)
}

/// What a failure before any request means.
pub(super) fn from_connecting(error: RedisError, place: &str) -> StoreError {
    let (kind, message) = broken(&error, place);
    StoreError::refused(kind, message).with_source(error)
}

/// The same trouble, met before any request was sent.
pub(super) fn surely_not(error: StoreError) -> StoreError {
    StoreError::refused(error.kind(), error.to_string())
}

fn broken(error: &RedisError, place: &str) -> (ErrorKind, String) {
    let what = match error.kind() {
        redis::ErrorKind::Parse | redis::ErrorKind::UnexpectedReturnType => {
            let message = format!("what listens at {place} does not speak the Redis protocol");
            return (ErrorKind::Malformed, message);
        }
        redis::ErrorKind::RESP3NotSupported => {
            let message = format!("the server at {place} is older than Redis 6.2");
            return (ErrorKind::Unsupported, message);
        }
        redis::ErrorKind::Io => format!("the connection to {place} broke"),
        _ => format!("the client of {place} failed"),
    };
    let kind = if error.is_timeout() {
        ErrorKind::TimedOut
    } else {
        ErrorKind::Unreachable
    };
    let detail = quoted(&error.to_string());
    // A broken pipe is what the client says for every end of a connection; it tells people nothing.
    if detail == "broken pipe" {
        (kind, what)
    } else {
        (kind, format!("{what}: {detail}"))
    }
}

#[cfg(test)]
#[path = "fault_tests.rs"]
mod tests;
