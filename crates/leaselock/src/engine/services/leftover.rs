//! What a caller that holds nothing may leave on the store: a waiting party, a reservation, a published wait.
//!
//! What a lease or a queue entry leaves is undone by the [cleanup](super::cleanup), which retries for longer.

use std::future::Future;
use std::sync::Arc;

use super::cleanup::SECOND_ATTEMPT_AFTER;
use super::core::{Engine, OPERATOR_WITHIN};
use crate::base::StoreError;
use crate::quorum::executor::Executor;
use crate::quorum::tally::Votable;

/// How something is taken back. A second time changes nothing.
pub(crate) trait Undo: Clone + Send + Sync + 'static {
    /// Takes it back. What an error leaves, its lease or its moment ends.
    fn undo(&self, store: &Executor) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// Mostly by one request.
impl<O: Votable<Reply: Send> + Clone + Send + Sync + 'static> Undo for O {
    async fn undo(&self, store: &Executor) -> Result<(), StoreError> {
        store.ask(self, OPERATOR_WITHIN).await.map(drop)
    }
}

/// Created before the first request is sent. Dropping it takes back in the background what may be on the store, and
/// closing the client waits for that.
#[derive(Debug)]
pub(crate) struct Leftover<U: Undo> {
    engine: Arc<Engine>,
    what: U,
    state: Presence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// Nothing is there.
    Absent,
    /// A request is in flight, or its reply was lost.
    InFlight,
    Present,
}

impl<U: Undo> Leftover<U> {
    /// Creates it while nothing is on the store.
    pub(crate) fn new(engine: &Arc<Engine>, what: U) -> Self {
        Leftover {
            engine: Arc::clone(engine),
            what,
            state: Presence::Absent,
        }
    }

    pub(crate) fn what(&self) -> &U {
        &self.what
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// To be called before a request that may leave it.
    pub(crate) fn begins(&mut self) {
        self.state = Presence::InFlight;
    }

    /// The store has replied that it is there, and no request is in flight.
    pub(crate) fn is_present(&mut self) {
        self.state = Presence::Present;
    }

    /// It was taken back, which is the end of it unless a request may still come.
    pub(crate) fn was_taken_back(&mut self) {
        if self.state == Presence::Present {
            self.ends();
        }
    }

    /// There is nothing to take back any more.
    pub(crate) fn ends(&mut self) {
        self.state = Presence::Absent;
    }
}

impl<U: Undo> Drop for Leftover<U> {
    fn drop(&mut self) {
        let once = match self.state {
            Presence::Absent => return,
            Presence::InFlight => false,
            Presence::Present => true,
        };
        let Some(background) = self.engine.started() else {
            return;
        };
        let open = background.cleanup.begin(); // closing the client waits for it
        let (store, what) = (background.store.clone(), self.what.clone());
        drop(background.handle.spawn(async move {
            let mut undone = what.undo(&store).await;
            if !once || undone.is_err() {
                tokio::time::sleep(SECOND_ATTEMPT_AFTER).await;
                undone = what.undo(&store).await;
            }
            if undone.is_ok() {
                open.confirm();
            }
        }));
    }
}
