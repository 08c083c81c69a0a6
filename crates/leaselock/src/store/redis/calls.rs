//! The command for a script, and the server's errors when it does not have the script.

use redis::{Cmd, Value};

use crate::base::error::{ErrorKind, StoreError};
use crate::script::{Call, Library, Script};

/// Builds the short command: a function where there are some, the script's hash otherwise.
pub(super) fn short(library: Option<&Library>, call: &Call) -> Cmd {
    match library {
        Some(library) => command("FCALL", library.function(call.script), call),
        None => command("EVALSHA", hash_of(call.script), call),
    }
}

/// Builds the command for a server that has never seen the script.
pub(super) fn whole(library: Option<&Library>, call: &Call) -> Cmd {
    match library {
        Some(_) => short(library, call),
        None => command("EVAL", call.script.source(), call),
    }
}

fn command(verb: &str, script: &str, call: &Call) -> Cmd {
    let room = verb.len() + script.len() + call.parameters.bytes() + 4;
    let mut command = Cmd::with_capacity(call.parameters.count() + 3, room);
    command
        .arg(verb)
        .arg(script)
        .arg(call.parameters.key_count());
    for word in call.parameters.iter() {
        command.arg(word);
    }
    command
}

fn hash_of(script: &'static Script) -> &'static str {
    let hash = || redis::Script::new(script.source()).get_hash().to_owned();
    script.sha1.get_or_init(hash)
}

/// True if the server has never seen the script; nothing was run.
pub(super) fn is_noscript(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(reply) if reply.code() == "NOSCRIPT")
}

/// True if the server has no such function, or no functions at all; nothing was run.
pub(super) fn is_absent(line: &str) -> bool {
    line.contains("Function not found") || is_unknown(line)
}

fn is_unknown(line: &str) -> bool {
    line.contains("unknown command") && line.to_ascii_uppercase().contains("FCALL")
}

/// Creates the error, which says what to do about it.
pub(super) fn absent(library: &Library, line: &str, place: &str) -> StoreError {
    let message = if is_unknown(line) {
        format!(
            "{place} has no functions, which need Redis 7 or later, or Valkey: use it without them"
        )
    } else {
        format!(
            "{place} does not have the functions of this version of leaselock ({}): an administrator loads them with \
             `leaselock functions load`",
            library.name
        )
    };
    StoreError::refused(ErrorKind::Unsupported, message)
}
