//! The successive connections of one subscriber: what is logged of them, and the pauses between them.

use tokio::time::{Duration, sleep};

use super::endpoint::Endpoint;
use crate::base::backoff::Backoff;
use crate::base::{CLOCK, ErrorKind, Moment, StoreError};

/// A connection that lived for less was not a success: the next try waits longer.
const STEADY: Duration = Duration::from_secs(2);

/// The history of successive connections.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    backoff: Backoff,
    began: Option<Moment>,
    /// The error that was logged during the present gap.
    logged: Option<ErrorKind>,
}

impl Sessions {
    pub(super) fn begin(&mut self) {
        self.began = Some(CLOCK.now());
    }

    /// True if this end is worth a log entry: an equal one is not repeated.
    pub(super) fn is_news(&mut self, was_subscribed: bool, error: &StoreError) -> bool {
        if was_subscribed {
            self.logged = None;
        }
        self.logged.replace(error.kind()) != Some(error.kind())
    }

    /// Pauses before the next one, longer after each immediate failure; at most until the server has moved.
    pub(super) async fn pause(&mut self, endpoint: &Endpoint) {
        let is_steady = |began| CLOCK.now().saturating_since(began) >= STEADY;
        if self.began.is_some_and(is_steady) {
            self.backoff.reset();
        }
        tokio::select! {
            () = sleep(self.backoff.next_jittered()) => {}
            () = endpoint.moved() => {}
        }
    }
}
