//! First in the queue behind a holder of another library, whose release wakes no waiter here.
//!
//! The server can announce it, if its keyspace notifications are on. Nothing asks whether they are: the waiter listens to
//! the key's channel meanwhile. If they are off, nothing comes, and the polls by timer find the free lock. Behind a holder
//! of leaselock nothing of this is needed, because it hands over.

use std::time::Duration;

use super::schedule::RateLimit;
use crate::base::{Clock, Moment};
use crate::store::subscriptions::Subscription;

/// What a waiter knows of such a holder.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    subscription: Option<Subscription>,
    /// True if the waiter listens since the latest poll, or does not listen yet.
    begins: bool,
    due: bool,
    pace: RateLimit,
}

impl Foreign {
    /// A poll has found such a holder, and no waiter before this one. `subscribe`: listens to the key's channel.
    pub(super) fn polled(&mut self, now: Moment, subscribe: impl FnOnce() -> Option<Subscription>) {
        self.pace.polled(now);
        self.due = false;
        if self.subscription.is_none() {
            self.subscription = subscribe();
            self.begins = true;
        }
    }

    /// A poll has found that a release will wake the waiter.
    pub(super) fn is_over(&mut self) {
        self.subscription = None;
    }

    /// A pause after which the next poll keeps the pace.
    pub(super) fn paced(&self, pause: Duration, now: Moment) -> Duration {
        pause.max(self.pace.next(now).saturating_since(now))
    }

    /// Ends when there is a reason to poll and a poll keeps the pace.
    ///
    /// # Cancel safety
    /// Safe: the reason is there for the next call.
    pub(super) async fn calls(&mut self, clock: &Clock) {
        let Some(subscription) = &self.subscription else {
            return std::future::pending().await;
        };
        if !self.due {
            // What happened before the waiter listened may have been the release.
            if !self.begins || !subscription.ready(Duration::MAX).await {
                self.begins = false;
                subscription.woken().await;
            }
            self.begins = false;
            self.due = true;
        }
        clock.sleep_until(self.pace.next(clock.now())).await;
        // A poll without an answer is tried again by the timer; otherwise no wait would come to its end.
        self.due = false;
    }
}

/// Whether a notification about a key may mean that it is gone. A holder that renews makes many of the others.
pub(crate) fn may_mean_free(event: &[u8]) -> bool {
    const STAYS: [&[u8]; 7] = [
        b"expire", b"pexpire", b"persist", b"set", b"new", b"hset", b"hincrby",
    ];
    !STAYS.contains(&event)
}

#[cfg(all(test, feature = "redis"))]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;
    use crate::store::subscriptions::Subscriptions;

    fn calls_at_once(foreign: &mut Foreign, clock: &Clock) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(foreign.calls(clock)).poll(&mut context).is_ready()
    }

    /// A poll without an answer is followed by the timer's, which knows when the wait is over.
    #[test]
    fn one_reason_is_one_poll_even_when_that_has_no_answer() {
        let (subscriptions, clock) = (Subscriptions::new(), Clock::manual());
        let mut foreign = Foreign::default();
        foreign.polled(clock.now(), || Some(subscriptions.subscribe_to_all("news")));
        assert!(
            !calls_at_once(&mut foreign, &clock),
            "nothing is received yet"
        );
        subscriptions.subscribed(b"news");
        assert!(calls_at_once(&mut foreign, &clock));
        assert!(!calls_at_once(&mut foreign, &clock), "the poll was made");
        subscriptions.message(b"news", b"del");
        assert!(calls_at_once(&mut foreign, &clock));
    }
}
