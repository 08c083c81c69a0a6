//! What a caller that holds nothing may leave on the store: a waiting party, a reservation, a published wait.
//!
//! What a lease or a queue entry leaves is undone by the [cleanup](super::cleanup).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::cleanup::{OpenCleanup, PAUSES_MS, SECOND_ATTEMPT_AFTER};
use super::core::{Engine, OPERATOR_WITHIN};
use crate::base::StoreError;
use crate::base::backoff::Backoff;
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

/// How long it is tried at most, or requests to a store that is away for long would pile up.
const TRIED_FOR: Duration = Duration::from_secs(60);

/// Created before the first request is sent. Dropping it takes back in the background what may be on the store, however many
/// attempts that takes while it lasts, for a minute at most. Closing the client waits for that.
#[derive(Debug)]
pub(crate) struct Leftover<U: Undo> {
    engine: Arc<Engine>,
    what: U,
    /// How long it lasts from its latest request on, if it is not taken back.
    lasts: Duration,
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
    pub(crate) fn new(engine: &Arc<Engine>, what: U, lasts: Duration) -> Self {
        Leftover {
            engine: Arc::clone(engine),
            what,
            lasts,
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
        let (clock, lasts) = (self.engine.clock.clone(), self.lasts);
        drop(background.handle.spawn(async move {
            let until = clock.now().plus(lasts.min(TRIED_FOR));
            let is_over = || clock.now() >= until;
            let mut undone = undo(&what, &store, &open, is_over).await;
            if !once && undone {
                tokio::time::sleep(SECOND_ATTEMPT_AFTER).await;
                undone = undo(&what, &store, &open, is_over).await;
            }
            open.end(undone);
        }));
    }
}

/// Takes it back; false when it is over before, or when the store refuses for good.
async fn undo(
    what: &impl Undo,
    store: &Executor,
    open: &OpenCleanup,
    is_over: impl Fn() -> bool,
) -> bool {
    let mut backoff = Backoff::new(PAUSES_MS);
    loop {
        open.pause(backoff.next()).await;
        let Err(error) = what.undo(store).await else {
            return true;
        };
        if is_over() || !(error.is_transient() || error.maybe_applied()) {
            return false;
        }
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::base::ErrorKind;
    use crate::client::Client;

    /// What the store takes back after so many errors.
    #[derive(Debug, Clone)]
    struct Outage {
        errors: usize,
        kind: ErrorKind,
        tried: Arc<AtomicUsize>,
    }

    impl Undo for Outage {
        async fn undo(&self, _: &Executor) -> Result<(), StoreError> {
            match self.tried.fetch_add(1, Ordering::SeqCst) {
                before if before < self.errors => Err(StoreError::refused(self.kind, "an outage")),
                _ => Ok(()),
            }
        }
    }

    /// How often it was tried, and how many leftovers were taken back.
    async fn tried(errors: usize, kind: ErrorKind, lasts: Duration) -> (usize, usize) {
        let client = Client::open("mem:").unwrap();
        let background = client.engine().background().unwrap();
        let outage = Outage {
            errors,
            kind,
            tried: Arc::default(),
        };
        let tried = Arc::clone(&outage.tried);
        let mut leftover = Leftover::new(client.engine(), outage, lasts);
        leftover.is_present();
        drop(leftover);
        let cleanup = &background.cleanup;
        let ended = cleanup.drained(&client.engine().clock, Duration::from_secs(20), || 0);
        let (taken_back, _) = ended.await;
        (tried.load(Ordering::SeqCst), taken_back)
    }

    #[tokio::test]
    async fn what_an_outage_has_left_is_taken_back_when_the_store_replies_again() {
        let lasts = Duration::from_secs(20);
        assert_eq!(tried(3, ErrorKind::Unreachable, lasts).await, (4, 1));
    }

    #[tokio::test]
    async fn what_has_ended_by_itself_or_is_refused_for_good_is_not_tried_again() {
        let (out, over) = (ErrorKind::Unreachable, Duration::ZERO);
        assert_eq!(tried(3, out, over).await, (1, 0));
        let lasts = Duration::from_secs(20);
        assert_eq!(tried(3, ErrorKind::Forbidden, lasts).await, (1, 0));
    }
}
