//! One task that waits, for [`run`](super::run).

use std::time::Duration;

use leaselock_fence::Name;
use tokio::sync::Notify;

use super::ask::Ask;
use super::patience::{NEVER_ANSWERED, Patience, SHORTEST_REQUEST};
use super::run::{Callers, Review, Wake};
use crate::base::{Clock, Moment, StoreError};
use crate::engine::values::{OnWait, Seen, Waiting};

/// A task that waits for itself.
pub(super) struct Solo<'a> {
    name: &'a Name,
    clock: &'a Clock,
    on_wait: Option<OnWait>,
    /// How long a request may take.
    longest: Duration,
    end: Option<Moment>,
    /// A store that was never there is given up then.
    pub(super) give_up_at: Moment,
    /// True if a last request is made when the time is over. A waiter in the queue leaves the queue instead.
    asks_at_end: bool,
    /// Notified when others take the queue entry over.
    called: Option<&'a Notify>,
    /// Notified when a poll has found it in the queue.
    pub(super) polled: Notify,
}

impl<'a> Solo<'a> {
    pub(super) fn in_queue(
        ask: &Ask<'a>,
        start: Moment,
        end: Option<Moment>,
        called: Option<&'a Notify>,
    ) -> Self {
        Solo {
            name: ask.name,
            clock: &ask.engine.clock,
            on_wait: ask.request.on_wait.clone(),
            longest: ask.within(),
            end,
            give_up_at: end.unwrap_or_else(|| start.plus(NEVER_ANSWERED)),
            asks_at_end: false,
            called,
            polled: Notify::new(),
        }
    }

    /// A task that waits for a lock without a queue.
    pub(super) fn without_queue(ask: &Ask<'a>, start: Moment, end: Option<Moment>) -> Self {
        let give_up_at = start.plus(NEVER_ANSWERED);
        Solo {
            give_up_at: end.map_or(give_up_at, |end| end.min(give_up_at)),
            asks_at_end: true,
            ..Solo::in_queue(ask, start, end, None)
        }
    }

    /// A store that was never there is waited for less long than a holder.
    fn over_at(&self, patience: &Patience) -> Option<Moment> {
        if patience.has_met_the_store() {
            self.end
        } else {
            Some(self.give_up_at)
        }
    }

    fn is_over(&self, patience: &Patience) -> bool {
        let over_at = self.over_at(patience);
        over_at.is_some_and(|at| self.clock.now() >= at)
    }
}

impl Callers for Solo<'_> {
    fn tell(&self, seen: &Seen, position: u64) {
        self.polled.notify_one();
        if let Some(on_wait) = &self.on_wait {
            on_wait(&Waiting::at(self.name, seen, position));
        }
    }

    fn tell_error(&self, last: Option<(&Seen, u64)>, error: &StoreError) {
        if let Some(on_wait) = &self.on_wait {
            on_wait(&Waiting::failed(self.name, last, error));
        }
    }

    fn time_for_request(&self, patience: &Patience) -> Option<Duration> {
        let now = || self.clock.now();
        let left = || self.give_up_at.saturating_since(now());
        if patience.never_answered().is_some() && left() < SHORTEST_REQUEST {
            return None;
        }
        Some(patience.time_for_request(self.longest, self.end, Some(self.give_up_at), now))
    }

    fn end_before_pause(&self, patience: &Patience) -> bool {
        self.asks_at_end && self.is_over(patience)
    }

    fn review_at(&self, poll_at: Moment, patience: &Patience) -> Moment {
        let over_at = self.over_at(patience);
        over_at.map_or(poll_at, |at| at.min(poll_at))
    }

    async fn changed(&self) {
        match self.called {
            Some(called) => called.notified().await,
            None => std::future::pending().await,
        }
    }

    fn review(&self, wake: Wake, _poll_at: Moment, patience: &Patience) -> Review {
        if wake == Wake::Changed {
            Review::HandOver
        } else if !self.asks_at_end && self.is_over(patience) {
            Review::Over
        } else {
            Review::Ask
        }
    }
}
