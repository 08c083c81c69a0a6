//! Input that is refused.

/// Input that was refused before anything was sent. The message says what would be right.
///
/// Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidInput {
    message: String,
    unsupported: Option<&'static str>,
}

impl InvalidInput {
    /// Returns the reason, when the input is well-formed and the store cannot do it, as a semaphore on a majority of servers.
    pub fn unsupported(&self) -> Option<&'static str> {
        self.unsupported
    }

    /// For what a store cannot do.
    #[doc(hidden)]
    pub fn because(mut self, reason: &'static str) -> Self {
        self.unsupported = Some(reason);
        self
    }

    /// For the crates that check an input of their own.
    #[doc(hidden)]
    pub fn new(message: impl Into<String>) -> Self {
        InvalidInput {
            message: message.into(),
            unsupported: None,
        }
    }
}
