//! The reservation of one waiting caller.

use std::sync::Arc;
use std::time::Duration;

use super::calls::{GiveBackPermits, PermitRequest, Take, Taken};
use crate::base::error::StoreError;
use crate::base::token::Token;
use crate::engine::services::core::{Engine, OPERATOR_WITHIN};
use crate::engine::services::leftover::{Leftover, Undo};
use crate::quorum::executor::Executor;

/// Created before the first request is sent. Dropping it gives back in the background what it has reserved.
#[derive(Debug)]
pub(super) struct Reservation(Leftover<Reserved>);

/// What may be reserved: permits, under the caller's id.
#[derive(Debug, Clone)]
struct Reserved {
    request: PermitRequest,
    id: Token,
}

impl Reservation {
    pub(super) fn new(engine: &Arc<Engine>, request: PermitRequest, id: Token) -> Self {
        Reservation(Leftover::new(engine, Reserved { request, id }))
    }

    /// Uses the permits, or reserves the moment at which they may be used. When the reply is lost it asks once more: a
    /// reservation is then the same.
    pub(super) async fn take(&mut self, patience: Duration) -> Result<Taken, StoreError> {
        self.0.begins();
        let (engine, Reserved { request, id }) = (self.0.engine(), self.0.what());
        let take = Take {
            request,
            id: id.secret(),
            patience_us: u64::try_from(patience.as_micros()).unwrap_or(u64::MAX),
        };
        let (outcome, was_lost) = match engine.ask(&take, OPERATOR_WITHIN).await {
            Err(error) if error.maybe_applied() => (engine.ask(&take, OPERATOR_WITHIN).await, true),
            outcome => (outcome, false),
        };
        match &outcome {
            Ok(Taken::Reserved { .. }) => self.0.is_present(),
            Err(error) if was_lost || error.maybe_applied() => {}
            _ => self.0.ends(),
        }
        outcome
    }

    /// Its moment has come: there is nothing to give back.
    pub(super) fn end(&mut self) {
        self.0.ends();
    }
}

impl Undo for Reserved {
    async fn undo(&self, store: &Executor) -> Result<(), StoreError> {
        let (request, id) = (&self.request, self.id.secret());
        let give_back = GiveBackPermits { request, id };
        store.ask(&give_back, OPERATOR_WITHIN).await.map(drop)
    }
}
