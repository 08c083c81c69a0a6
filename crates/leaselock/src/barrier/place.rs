//! The place of one waiting party.

use std::sync::Arc;

use super::calls::{Leave, Left};
use crate::base::error::StoreError;
use crate::base::token::Token;
use crate::engine::services::core::{Engine, OPERATOR_WITHIN};
use crate::script::keys::LockKeys;

/// Created before the first request is sent. Dropping it makes the party leave in the background.
#[derive(Debug)]
pub(super) struct Place {
    engine: Arc<Engine>,
    pub(super) keys: LockKeys,
    pub(super) token: Token,
    is_over: bool,
}

impl Place {
    pub(super) fn new(engine: &Arc<Engine>, keys: LockKeys, token: Token) -> Self {
        Place {
            engine: Arc::clone(engine),
            keys,
            token,
            is_over: false,
        }
    }

    /// The party does not wait any more: there is nothing to leave.
    pub(super) fn end(mut self) {
        self.is_over = true;
    }

    /// Leaves, unless all have passed.
    pub(super) async fn leave(&self) -> Result<Left, StoreError> {
        let (keys, token) = (&self.keys, &self.token);
        let leave = Leave { keys, token };
        self.engine.ask(&leave, OPERATOR_WITHIN).await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(background) = self.engine.started().filter(|_| !self.is_over) else {
            return;
        };
        let (store, keys, token) = (
            background.store.clone(),
            self.keys.clone(),
            self.token.clone(),
        );
        drop(background.handle.spawn(async move {
            let (keys, token) = (&keys, &token);
            drop(store.ask(&Leave { keys, token }, OPERATOR_WITHIN).await); // its lease ends it
        }));
    }
}
