//! Conversion of errors: their kind, and whether the request may have had its effect.

mod words;

use redis::{RedisError, ServerError};

use self::words::{FORBIDDEN, FORBIDDEN_ADVICE, FROM_A_SCRIPT, Meaning, PHRASES, REFUSALS};
use crate::base::error::{ErrorKind, StoreError};
use crate::base::printable::printable;
use crate::script::damage;

/// Returns the whole line that the server sent.
pub(super) fn line(error: &ServerError) -> String {
    let mut line = error.code().to_owned();
    if let Some(details) = error.details() {
        line.push(' ');
        line.push_str(details);
    }
    line
}

/// Converts an error line that is the reply to a request.
pub(super) fn from_line(line: &str) -> StoreError {
    if let Some(damaged) = damage::from_line(line) {
        return damaged;
    }
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
        // Behind the known words, servers name the place in the script, which tells an operator nothing.
        let words = line.split(" script: ").next().unwrap_or(line);
        return StoreError::refused(meaning.kind, explained(meaning.advice, words));
    }
    let (kind, what) = if raised {
        (ErrorKind::Internal, "a script failed")
    } else {
        (ErrorKind::NotServing, "the server answered with an error")
    };
    StoreError::unknown(kind, explained(what, line))
}

/// Finds the first code word, at any position: old servers put the place in the script in front of it.
fn by_word(line: &str) -> Option<&'static Meaning> {
    let mut words = line
        .split([' ', ':'])
        .map(|word| word.trim_start_matches('-'));
    words.find_map(|word| REFUSALS.iter().find(|meaning| meaning.word == word))
}

fn explained(advice: &str, line: &str) -> String {
    format!("{advice} (it said: {})", quoted(line))
}

/// Makes a server's words safe to print.
///
/// They are shortened too. It drops the arguments that servers repeat for an unknown command,
/// because these contain tokens and passwords.
pub(super) fn quoted(text: &str) -> String {
    const LONGEST: usize = 200;
    let text = text
        .split("with args beginning with")
        .next()
        .unwrap_or_default()
        .trim_end_matches([' ', ',']);
    let mut shown: String = printable(text).chars().take(LONGEST).collect();
    if text.chars().count() > LONGEST {
        shown.push('…');
    }
    shown
}

/// Converts a failure of the connection during a request.
pub(super) fn from_connection(error: RedisError, place: &str) -> StoreError {
    let (kind, message) = broken(&error, place);
    StoreError::unknown(kind, message).with_source(error)
}

/// Converts a failure before any request.
pub(super) fn from_connecting(error: RedisError, place: &str) -> StoreError {
    let (kind, message) = broken(&error, place);
    StoreError::refused(kind, message).with_source(error)
}

/// Converts an error to the same one from before any request.
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
        ErrorKind::NoReply
    } else {
        ErrorKind::Unreachable
    };
    let detail = quoted(&error.to_string());
    // The redis client reports a broken pipe for every end of a connection, which tells a reader nothing.
    if detail == "broken pipe" {
        (kind, what)
    } else {
        (kind, format!("{what}: {detail}"))
    }
}

#[cfg(test)]
mod tests;
