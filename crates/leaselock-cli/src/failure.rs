//! What went wrong, in one line for people or one object for programs, and the exit code with it.

use std::fmt::Display;

use leaselock::{
    AcquireError, BreakError, ExtendError, InspectError, InvalidInput, ReleaseError, StoreError,
};
use serde_json::json;

use crate::args::usage::without_secrets;
use crate::exit::Exit;
use crate::output;

/// A verb that could not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    text: String,
    pub(crate) exit: Exit,
}

impl Failure {
    pub(crate) fn new(text: impl Display, exit: Exit) -> Self {
        // A URL may have been typed where a name belongs, and a message may quote it.
        let text = without_secrets(&text.to_string());
        Failure { text, exit }
    }

    pub(crate) fn internal(text: impl Display) -> Self {
        Failure::new(text, Exit::INTERNAL)
    }

    pub(crate) fn acquire(error: &AcquireError, busy: Exit) -> Self {
        Failure::new(error, Exit::of_acquire(error, busy))
    }

    /// On standard error, where it cannot be taken for what was asked for.
    pub(crate) fn say(&self, as_json: bool) {
        let text = output::tame(&self.text);
        if as_json {
            output::say(&format!(
                "{}\n",
                json!({ "error": text, "exit": self.exit.code() })
            ));
        } else {
            output::say(&format!("leaselock: {text}\n"));
        }
    }
}

impl From<InvalidInput> for Failure {
    fn from(error: InvalidInput) -> Self {
        Failure::new(error, Exit::USAGE)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::new(&error, Exit::of_store(error.kind()))
    }
}

impl From<InspectError> for Failure {
    fn from(error: InspectError) -> Self {
        Failure::new(&error, Exit::of_inspect(&error))
    }
}

impl From<ExtendError> for Failure {
    fn from(error: ExtendError) -> Self {
        Failure::new(&error, Exit::of_extend(&error))
    }
}

impl From<ReleaseError> for Failure {
    fn from(error: ReleaseError) -> Self {
        Failure::new(&error, Exit::of_release(&error))
    }
}

impl From<BreakError> for Failure {
    fn from(error: BreakError) -> Self {
        let hint = match &error {
            BreakError::Foreign { .. } => "; --foreign breaks it all the same",
            BreakError::Changed { .. } => "; look again with status",
            _ => "",
        };
        Failure::new(format!("{error}{hint}"), Exit::of_break(&error))
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::internal(error)
    }
}
