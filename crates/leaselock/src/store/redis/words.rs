//! Commands as words, and the meaning of their replies.

use redis::Cmd;

use super::{answer, error_map};
use crate::base::error::{ErrorKind, StoreError};
use crate::script::{Malformed, Value};

pub(super) fn command(words: &[&str]) -> Cmd {
    let mut command = Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command
}

pub(super) fn understood(
    answer: redis::Value,
    explain: impl Fn(&str) -> StoreError,
) -> Result<Value, StoreError> {
    if let redis::Value::ServerError(reply) = &answer {
        return Err(explain(&error_map::line(reply)));
    }
    answer::plain(answer).map_err(|Malformed| malformed())
}

pub(super) fn malformed() -> StoreError {
    StoreError::unknown(ErrorKind::Malformed, "the answer was not understood")
}

pub(super) fn on_one_server() -> StoreError {
    let message = "a cluster has no one server for this: its keys may lie on several";
    StoreError::refused(ErrorKind::Unsupported, message)
}
