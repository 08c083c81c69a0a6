//! The place of one waiting party.

use super::calls::Leave;
use crate::base::error::StoreError;
use crate::base::token::Token;
use crate::engine::services::core::OPERATOR_WITHIN;
use crate::engine::services::leftover::Undo;
use crate::quorum::executor::Executor;
use crate::script::keys::LockKeys;

/// A party that waits, or may wait. To undo it is to leave.
#[derive(Debug, Clone)]
pub(super) struct PartyPlace {
    pub(super) keys: LockKeys,
    pub(super) token: Token,
}

impl PartyPlace {
    pub(super) fn leave(&self) -> Leave<'_> {
        let (keys, token) = (&self.keys, &self.token);
        Leave { keys, token }
    }
}

impl Undo for PartyPlace {
    async fn undo(&self, store: &Executor) -> Result<(), StoreError> {
        let left = store.ask(&self.leave(), OPERATOR_WITHIN).await;
        left.map(drop) // a party that has passed leaves nothing either
    }
}
