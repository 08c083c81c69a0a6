//! The loop of every wait: ask, pause until there is a reason to ask again, and ask again.
//!
//! [`Attempts`] says what is asked and what wakes the waiter: a request that enters the queue (`queued.rs`), a round of
//! votes (`vote/way.rs`), a try for another library's lock (`poll.rs`), or one for a kind without a queue
//! (`trying.rs`). [`Callers`] says for whom: for one task (`solo.rs`), or for the tasks of one client that share a
//! queue entry (`local/group_task.rs`).

use std::time::Duration;

use super::patience::Patience;
use crate::base::{Clock, Moment, StoreError};
use crate::engine::values::Seen;

/// What one request came to.
pub(super) enum AttemptReply<T> {
    Granted(T),
    /// Not granted. The next request leaves after this pause, or when the waiter is woken.
    NotYet(Duration),
    /// The next request leaves at once.
    Again,
    /// There is no time for a request that could say more than the one before it.
    NoTime,
}

/// What ended a pause, or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wake {
    /// A message, or something that may have swallowed one.
    Message,
    /// A reason to poll.
    Poll,
    /// The callers have changed.
    Changed,
    Timer,
}

/// What the callers want after a pause, or a part of it.
pub(super) enum Review {
    Ask,
    /// The pause goes on.
    Pause,
    /// Another task goes on with the attempt.
    HandOver,
    /// No caller waits any longer.
    Over,
}

/// How a wait ended.
pub(super) enum WaitEnd<T> {
    Granted(T),
    HandedOver,
    /// The request met an error that no retry can mend.
    Failed(StoreError),
    /// The store never answered, and there is no time for another request.
    NoTime,
    Over,
}

/// What is asked until it is granted.
pub(super) trait Attempts: Send {
    type Granted: Send;

    /// Makes one request, which begins at `now`.
    fn ask<C: Callers>(
        &mut self,
        now: Moment,
        patience: &mut Patience,
        callers: &C,
    ) -> impl Future<Output = Result<AttemptReply<Self::Granted>, StoreError>> + Send;

    /// The least pause after this error.
    fn rest_after(&self, _error: &StoreError) -> Duration {
        Duration::ZERO
    }

    /// Ends when there is a reason to ask before the pause is over.
    ///
    /// # Cancel safety
    /// Safe: the reason is there for the next call.
    fn woken(&mut self) -> impl Future<Output = Wake> + Send;

    /// The grant that the message brought.
    fn received(&mut self) -> Option<Self::Granted> {
        None
    }
}

/// The tasks that wait.
pub(super) trait Callers: Sync {
    /// The store has answered.
    fn tell(&self, seen: &Seen, position: u64);

    /// A request has failed, and another one follows. `last`: what the latest answer said.
    fn tell_error(&self, last: Option<(&Seen, u64)>, error: &StoreError);

    /// How long the next request may take. `None` if it could not say more than the one before it.
    fn time_for_request(&self, patience: &Patience) -> Option<Duration>;

    /// True if the wait ends without a pause after a request that was not granted.
    fn end_before_pause(&self, _patience: &Patience) -> bool {
        false
    }

    /// When to review the wait, if nothing happens before. Not later than `poll_at`.
    fn review_at(&self, poll_at: Moment, patience: &Patience) -> Moment;

    /// Ends when the callers have changed.
    fn changed(&self) -> impl Future<Output = ()> + Send;

    fn review(&self, wake: Wake, poll_at: Moment, patience: &Patience) -> Review;
}

/// Asks until the attempt is granted or no caller waits any longer. `now`: the clock, as it was read just before.
pub(super) async fn run<A: Attempts, C: Callers>(
    clock: &Clock,
    now: Option<Moment>,
    patience: &mut Patience,
    callers: &C,
    attempt: &mut A,
) -> WaitEnd<A::Granted> {
    let mut just_now = now;
    loop {
        let now = just_now.take().unwrap_or_else(|| clock.now());
        let pause = match attempt.ask(now, patience, callers).await {
            Ok(AttemptReply::Granted(granted)) => return WaitEnd::Granted(granted),
            Ok(AttemptReply::NotYet(pause)) => pause,
            Ok(AttemptReply::Again) => continue,
            Ok(AttemptReply::NoTime) => return WaitEnd::NoTime,
            Err(error) if !error.is_transient() => return WaitEnd::Failed(error),
            Err(error) => {
                callers.tell_error(patience.last(), &error);
                let rest = attempt.rest_after(&error);
                patience.failed(error).max(rest)
            }
        };
        if callers.end_before_pause(patience) {
            return WaitEnd::Over;
        }
        let poll_at = clock.now().plus(pause);
        loop {
            let until = callers.review_at(poll_at, patience);
            let wake = tokio::select! {
                biased;
                wake = attempt.woken() => wake,
                () = callers.changed() => Wake::Changed,
                () = clock.sleep_until(until) => Wake::Timer,
            };
            if wake == Wake::Message {
                match attempt.received() {
                    Some(granted) => return WaitEnd::Granted(granted),
                    None => break,
                }
            }
            match callers.review(wake, poll_at, patience) {
                Review::Ask => break,
                Review::Pause => {}
                Review::HandOver => return WaitEnd::HandedOver,
                Review::Over => return WaitEnd::Over,
            }
        }
    }
}
