//! Input that is refused.

/// Input that was refused before anything was sent. The message says what would be right.
///
/// Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidInput {
    message: String,
}

impl InvalidInput {
    /// For the crates that check an input of their own.
    #[doc(hidden)]
    pub fn new(message: impl Into<String>) -> Self {
        InvalidInput {
            message: message.into(),
        }
    }
}
