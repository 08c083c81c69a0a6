//! First in line behind a holder of another library, who lets go without telling anybody here.
//!
//! The server can tell, when its notifications of keys are on. Whether they are is not asked: the channel of the key is
//! heard meanwhile, nothing comes when they are off, and then the looks by timer find the free lock. Behind a holder of
//! ours nothing of this is needed, because it hands over.

use std::time::Duration;

use super::schedule::RateLimit;
use crate::base::clock::{Clock, Moment};
use crate::store::subscriptions::Subscription;

/// What a place in line knows of such a holder.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    subscription: Option<Subscription>,
    /// The channel is heard since the latest look, or is not heard yet.
    begins: bool,
    /// Something has called for a look that was not made yet.
    due: bool,
    pace: RateLimit,
}

impl Foreign {
    /// A look has found such a holder, and that nobody stands before us. `subscribe`: subscribes to the key.
    pub(super) fn looked(&mut self, now: Moment, subscribe: impl FnOnce() -> Option<Subscription>) {
        self.pace.looked(now);
        self.due = false;
        if self.subscription.is_none() {
            self.subscription = subscribe();
            self.begins = true;
        }
    }

    /// A look has found that others will tell us.
    pub(super) fn is_over(&mut self) {
        self.subscription = None;
    }

    /// A pause after which the next look keeps the pace.
    pub(super) fn paced(&self, pause: Duration, now: Moment) -> Duration {
        pause.max(self.pace.next(now).saturating_since(now))
    }

    /// Ends when there is a reason to look and a look keeps the pace.
    ///
    /// # Cancel safety
    /// Safe: the reason is there for the next call.
    pub(super) async fn calls(&mut self, clock: &Clock) {
        let Some(subscription) = &self.subscription else {
            return std::future::pending().await;
        };
        if !self.due {
            // What happened before the channel was heard may have been the release.
            if !self.begins || !subscription.ready(Duration::MAX).await {
                self.begins = false;
                subscription.woken().await;
            }
            self.begins = false;
            self.due = true;
        }
        clock.sleep_until(self.pace.next(clock.now())).await;
        // Whoever looks now and gets no answer tries again by its timer; else no wait would come to its end.
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

    /// A look that meets silence is followed by the timer's, which knows when the wait is over.
    #[test]
    fn one_reason_is_one_look_even_when_that_has_no_answer() {
        let (set, clock) = (Subscriptions::new(), Clock::manual());
        let mut foreign = Foreign::default();
        foreign.looked(clock.now(), || Some(set.subscribe_to_all("news")));
        assert!(!calls_at_once(&mut foreign, &clock), "nothing is heard yet");
        set.subscribed(b"news");
        assert!(calls_at_once(&mut foreign, &clock));
        assert!(!calls_at_once(&mut foreign, &clock), "the look was made");
        set.message(b"news", b"del");
        assert!(calls_at_once(&mut foreign, &clock));
    }
}
