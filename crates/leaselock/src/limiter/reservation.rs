//! The reservation of one waiting caller.

use std::sync::Arc;
use std::time::Duration;

use super::calls::{GiveBack, Request, Take, Taken};
use crate::base::error::StoreError;
use crate::base::token::Token;
use crate::engine::services::core::{Engine, OPERATOR_WITHIN};

/// When a reservation is given back once more: the server may run a request that was cut off just after the first time,
/// which uses another connection.
const SECOND_ATTEMPT_AFTER: Duration = Duration::from_millis(100);

/// Created before the first request is sent. Dropping it gives back in the background what it has reserved.
#[derive(Debug)]
pub(super) struct Reservation {
    engine: Arc<Engine>,
    request: Request,
    id: Token,
    progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Nothing is reserved.
    Idle,
    /// A request is in flight, or its reply was lost.
    InFlight,
    Reserved,
}

impl Reservation {
    pub(super) fn new(engine: &Arc<Engine>, request: Request, id: Token) -> Self {
        Reservation {
            engine: Arc::clone(engine),
            request,
            id,
            progress: Progress::Idle,
        }
    }

    /// Uses the permits, or reserves the moment at which they may be used. When the reply is lost it asks once more: a
    /// reservation is then the same.
    pub(super) async fn take(&mut self, patience: Duration) -> Result<Taken, StoreError> {
        let take = Take {
            request: &self.request,
            id: self.id.secret(),
            patience_us: u64::try_from(patience.as_micros()).unwrap_or(u64::MAX),
        };
        self.progress = Progress::InFlight;
        let (outcome, was_lost) = match self.engine.ask(&take, OPERATOR_WITHIN).await {
            Err(error) if error.maybe_applied() => {
                (self.engine.ask(&take, OPERATOR_WITHIN).await, true)
            }
            outcome => (outcome, false),
        };
        self.progress = match &outcome {
            Ok(Taken::Reserved { .. }) => Progress::Reserved,
            Err(error) if was_lost || error.maybe_applied() => Progress::InFlight,
            _ => Progress::Idle,
        };
        outcome
    }

    /// Its moment has come: there is nothing to give back.
    pub(super) fn end(&mut self) {
        self.progress = Progress::Idle;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let is_reserved = match self.progress {
            Progress::Idle => return,
            Progress::InFlight => false,
            Progress::Reserved => true,
        };
        let Some(background) = self.engine.started() else {
            return;
        };
        let open = background.cleanup.begin(); // closing the client waits for it
        let (store, request, id) = (
            background.store.clone(),
            self.request.clone(),
            self.id.clone(),
        );
        drop(background.handle.spawn(async move {
            let give_back = GiveBack {
                request: &request,
                id: id.secret(),
            };
            let mut given_back = store.ask(&give_back, OPERATOR_WITHIN).await;
            if !is_reserved || given_back.is_err() {
                tokio::time::sleep(SECOND_ATTEMPT_AFTER).await;
                given_back = store.ask(&give_back, OPERATOR_WITHIN).await;
            }
            if given_back.is_ok() {
                open.confirm(); // otherwise its moment ends it
            }
        }));
    }
}
