//! The loop of every wait: ask, pause until there is a reason to ask again, and ask again.
//!
//! [`Attempts`] says what is asked and what wakes the waiter: a request that enters the queue (`queue/way.rs`), a round of
//! votes (`vote/way.rs`), a try for another library's lock (`poll.rs`), or one for a kind without a queue
//! (`begin_run.rs`). [`Callers`] says for whom: for one task ([`Solo`]), or for the tasks of one client that share a
//! queue entry (`local/group_task.rs`). [`Progress`] is what the requests have come to.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leaselock_fence::Name;
use tokio::sync::Notify;
use tracing::Span;

use super::ask::Ask;
use super::schedule;
use crate::base::{Clock, Moment, StoreError};
use crate::engine::services::log::EventLog;
use crate::engine::services::totals::of_client::{reported, shown};
use crate::engine::values::{OnWait, Seen, Waiting};

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
        progress: &mut Progress,
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
    fn time_for_request(&self, progress: &Progress) -> Option<Duration>;

    /// True if the wait ends without a pause after a request that was not granted.
    fn end_before_pause(&self, _progress: &Progress) -> bool {
        false
    }

    /// When to review the wait, if nothing happens before. Not later than `poll_at`.
    fn review_at(&self, poll_at: Moment, progress: &Progress) -> Moment;

    /// Ends when the callers have changed.
    fn changed(&self) -> impl Future<Output = ()> + Send;

    fn review(&self, wake: Wake, poll_at: Moment, progress: &Progress) -> Review;
}

/// Asks until the attempt is granted or no caller waits any longer. `now`: the clock, as it was read just before.
pub(super) async fn run<A: Attempts, C: Callers>(
    clock: &Clock,
    now: Option<Moment>,
    progress: &mut Progress,
    callers: &C,
    attempt: &mut A,
) -> WaitEnd<A::Granted> {
    let mut just_now = now;
    loop {
        let now = just_now.take().unwrap_or_else(|| clock.now());
        let pause = match attempt.ask(now, progress, callers).await {
            Ok(AttemptReply::Granted(granted)) => return WaitEnd::Granted(granted),
            Ok(AttemptReply::NotYet(pause)) => pause,
            Ok(AttemptReply::Again) => continue,
            Ok(AttemptReply::NoTime) => return WaitEnd::NoTime,
            Err(error) if !error.is_transient() => return WaitEnd::Failed(error),
            Err(error) => {
                callers.tell_error(progress.last(), &error);
                let rest = attempt.rest_after(&error);
                progress.failed(error).max(rest)
            }
        };
        if callers.end_before_pause(progress) {
            return WaitEnd::Over;
        }
        let poll_at = clock.now().plus(pause);
        loop {
            let until = callers.review_at(poll_at, progress);
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
            match callers.review(wake, poll_at, progress) {
                Review::Ask => break,
                Review::Pause => {}
                Review::HandOver => return WaitEnd::HandedOver,
                Review::Over => return WaitEnd::Over,
            }
        }
    }
}

/// A wait that never had an answer is given up after this time, also one without a timeout: a wait for a holder is one
/// thing, a wait for a server that was never there another. A store that others keep busy is there.
pub(super) const NEVER_ANSWERED: Duration = Duration::from_secs(2);
/// With less time a request would time out, and its error would hide the error of the request before it.
pub(super) const SHORTEST_REQUEST: Duration = Duration::from_millis(100);

/// What the requests of one wait have come to.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The latest answer.
    pub(super) seen: Option<Seen>,
    /// The position in the queue, by the latest answer that named one.
    pub(super) position: u64,
    /// Failures since the latest answer.
    failures: u32,
    /// True if the store is known to be there, although it gave no answer.
    is_there: bool,
    /// The error of the latest request.
    pub(super) error: Option<StoreError>,
}

impl Progress {
    /// A wait that begins with an answer to an earlier one.
    pub(super) fn after(seen: Option<Seen>) -> Self {
        Progress {
            seen,
            ..Progress::default()
        }
    }

    pub(super) fn answered(&mut self, seen: Seen, position: u64) {
        self.seen = Some(seen);
        self.position = position;
        self.failures = 0;
        self.error = None;
    }

    /// Returns the pause before the next request.
    pub(super) fn failed(&mut self, source: StoreError) -> Duration {
        self.is_there |= source.is_contention();
        self.error = Some(source);
        self.failures += 1;
        schedule::jittered(schedule::after_error(self.failures), 50)
    }

    /// The store gave no answer that counts, but it is there.
    pub(super) fn found_the_store(&mut self) {
        self.is_there = true;
    }

    /// The latest answer and the position that it named.
    pub(super) fn last(&self) -> Option<(&Seen, u64)> {
        self.seen.as_ref().map(|seen| (seen, self.position))
    }

    /// True if the store was there at least once: failures from now on do not end the wait.
    pub(super) fn has_met_the_store(&self) -> bool {
        self.seen.is_some() || self.is_there
    }

    /// True if the latest request had no usable reply, and may have been granted.
    pub(super) fn maybe_applied(&self) -> bool {
        self.error.as_ref().is_some_and(StoreError::maybe_applied)
    }

    /// The error of the latest request, if the store was never there.
    pub(super) fn never_answered(&self) -> Option<&StoreError> {
        self.error.as_ref().filter(|_| !self.has_met_the_store())
    }

    /// How long the next request may take. The first one has all its time, because it may need a connection first. A
    /// wait that ends at `end` overshoots by one request, however many are made then. While no request was answered,
    /// those after the first end when the store is given up.
    pub(super) fn time_for_request(
        &self,
        longest: Duration,
        end: Option<Moment>,
        give_up_at: Option<Moment>,
        now: impl FnOnce() -> Moment,
    ) -> Duration {
        let (last, least) = if self.never_answered().is_some() {
            (give_up_at, SHORTEST_REQUEST)
        } else {
            (end.map(|end| end.plus(longest)), Duration::ZERO)
        };
        last.map_or(longest, |last| {
            longest.min(last.saturating_since(now()).max(least))
        })
    }
}

/// A task that waits for itself.
pub(super) struct Solo<'a> {
    name: &'a Name,
    clock: &'a Clock,
    log: &'a EventLog,
    /// The caller's own.
    on_wait: Option<OnWait>,
    /// Made when it is told for the first time.
    told: OnceLock<(Option<OnWait>, Option<Arc<Span>>)>,
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
    pub(super) fn in_queue(ask: &Ask<'a>, called: Option<&'a Notify>) -> Self {
        let end = ask.end;
        Solo {
            name: ask.name,
            clock: &ask.engine.clock,
            log: &ask.engine.log,
            on_wait: ask.request.on_wait.clone(),
            told: OnceLock::new(),
            longest: ask.within(),
            end,
            give_up_at: end.unwrap_or_else(|| ask.start.plus(NEVER_ANSWERED)),
            asks_at_end: false,
            called,
            polled: Notify::new(),
        }
    }

    /// A task that waits for a lock without a queue.
    pub(super) fn without_queue(ask: &Ask<'a>) -> Self {
        let give_up_at = ask.start.plus(NEVER_ANSWERED);
        Solo {
            give_up_at: ask.end.map_or(give_up_at, |end| end.min(give_up_at)),
            asks_at_end: true,
            ..Solo::in_queue(ask, None)
        }
    }

    /// A store that was never there is waited for less long than a holder.
    fn over_at(&self, progress: &Progress) -> Option<Moment> {
        if progress.has_met_the_store() {
            self.end
        } else {
            Some(self.give_up_at)
        }
    }

    fn is_over(&self, progress: &Progress) -> bool {
        let over_at = self.over_at(progress);
        over_at.is_some_and(|at| self.clock.now() >= at)
    }
}

impl Callers for Solo<'_> {
    fn tell(&self, seen: &Seen, position: u64) {
        self.polled.notify_one();
        let told = || {
            self.log
                .tell(|| Waiting::at(self.name, seen, position).event());
            let shown = shown();
            (reported(self.on_wait.clone(), shown.as_ref()), shown)
        };
        if let (Some(on_wait), _) = self.told.get_or_init(told) {
            on_wait(&Waiting::at(self.name, seen, position));
        }
    }

    fn tell_error(&self, last: Option<(&Seen, u64)>, error: &StoreError) {
        if let Some(on_wait) = &self.on_wait {
            on_wait(&Waiting::failed(self.name, last, error));
        }
    }

    fn time_for_request(&self, progress: &Progress) -> Option<Duration> {
        let now = || self.clock.now();
        let left = || self.give_up_at.saturating_since(now());
        if progress.never_answered().is_some() && left() < SHORTEST_REQUEST {
            return None;
        }
        Some(progress.time_for_request(self.longest, self.end, Some(self.give_up_at), now))
    }

    fn end_before_pause(&self, progress: &Progress) -> bool {
        self.asks_at_end && self.is_over(progress)
    }

    fn review_at(&self, poll_at: Moment, progress: &Progress) -> Moment {
        let over_at = self.over_at(progress);
        over_at.map_or(poll_at, |at| at.min(poll_at))
    }

    async fn changed(&self) {
        match self.called {
            Some(called) => called.notified().await,
            None => std::future::pending().await,
        }
    }

    fn review(&self, wake: Wake, _poll_at: Moment, progress: &Progress) -> Review {
        if wake == Wake::Changed {
            Review::HandOver
        } else if !self.asks_at_end && self.is_over(progress) {
            Review::Over
        } else {
            Review::Ask
        }
    }
}

#[cfg(test)]
mod progress_tests {
    use super::*;
    use crate::base::error::ErrorKind;

    const LONGEST: Duration = Duration::from_secs(1);

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    fn silent() -> Progress {
        let mut progress = Progress::default();
        progress.failed(StoreError::unknown(ErrorKind::NoReply, "no reply"));
        progress
    }

    #[test]
    fn the_first_request_has_all_its_time_and_later_ones_end_when_the_store_is_given_up() {
        let time = |progress: &Progress, now| {
            let (end, give_up_at) = (None, Some(at(2_000)));
            let time = progress.time_for_request(LONGEST, end, give_up_at, || at(now));
            time.as_millis()
        };
        assert_eq!(time(&Progress::default(), 1_900), 1_000);
        let silent = silent();
        assert_eq!((time(&silent, 500), time(&silent, 1_700)), (1_000, 300));
        assert_eq!(time(&silent, 1_999), 100, "the shortest request");
    }

    #[test]
    fn a_wait_with_an_end_overshoots_by_one_request_at_most() {
        let mut progress = silent();
        progress.answered(Seen::held_by("AAAAAAAA").unwrap(), 1);
        let time = |now| progress.time_for_request(LONGEST, Some(at(5_000)), None, || at(now));
        assert_eq!((time(1_000), time(5_400)), (LONGEST, LONGEST * 3 / 5));
        assert_eq!(time(6_000), Duration::ZERO);
    }

    #[test]
    fn a_store_that_answered_once_or_is_kept_busy_is_not_given_up() {
        let mut progress = silent();
        assert!(progress.never_answered().is_some());
        progress.answered(Seen::held_by("AAAAAAAA").unwrap(), 3);
        progress.failed(StoreError::unknown(ErrorKind::NoReply, "no reply"));
        assert!(progress.never_answered().is_none() && progress.error.is_some());
        assert_eq!(progress.last().map(|(_, position)| position), Some(3));
        #[cfg(feature = "embedded")]
        {
            let mut busy = Progress::default();
            busy.failed(StoreError::contended("busy".to_owned()));
            assert!(busy.never_answered().is_none());
        }
    }
}
