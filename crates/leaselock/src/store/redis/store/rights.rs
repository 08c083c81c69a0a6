//! What the server permits this user to do, as its replies to commands show.

use std::time::Duration;

use super::RedisStore;
use crate::base::error::{ErrorKind, StoreError};
use crate::script::Value;
use crate::store::Store;

impl RedisStore {
    /// True if the user may publish: the only one of these commands that a node of a quorum cannot do without.
    pub(crate) async fn may_publish(&self, channel: &str, within: Duration) -> Option<bool> {
        Self::is_allowed(&self.plain(&["PUBLISH", channel, ""], within).await)
    }

    /// Reads whether the server permits it; `None` when it has not said so.
    pub(super) fn is_allowed(answer: &Result<Value, StoreError>) -> Option<bool> {
        match answer {
            Ok(_) => Some(true),
            Err(error) if matches!(error.kind(), ErrorKind::Forbidden | ErrorKind::Unsupported) => {
                Some(false)
            }
            Err(_) => None,
        }
    }
}
