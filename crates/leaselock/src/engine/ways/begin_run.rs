//! Waiting for a kind whose replies say more than whether the lock was granted.
//!
//! Its waiters join no queue. Each tries again when a broadcast says that something has changed, when the holder's lease
//! would end, and now and then.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::ask::{Ask, Outcome};
use super::run::{AttemptReply, Attempts, Callers, Progress, Solo, Wake, run};
use super::schedule;
use crate::base::error::AcquireError;
use crate::base::{Moment, Result, StoreError, Token};
use crate::engine::guard::lease::Lease;
use crate::engine::services::{BroadcastListener, broadcast};
use crate::engine::values::{AcquireTerms, Acquired, Held, Seen, Wait};
use crate::quorum::tally::Votable;
use crate::script::{Answer, Call, Malformed, Operation, Script};

/// How much later than the end of a lease its waiters try at most, so that not all do at once.
const AFTER_END: Duration = Duration::from_millis(100);

/// The reply to one try: what every kind is told, if it is that, and what this kind is told.
pub(crate) type Tried<T> = (Option<Acquired>, T);

/// Begins a run, or asks why none begins.
#[derive(Debug)]
pub(crate) struct BeginRun<T> {
    pub(crate) held: Held,
    pub(crate) terms: AcquireTerms,
    /// What the noun asks for.
    pub(crate) asked: T,
    /// Which request of which call this is.
    pub(crate) number: CallNumber,
}

/// What a caller asks for until it is told.
pub(crate) trait RunTerms: Clone + Send + Sync {
    /// Whose broadcasts say that something has changed.
    const NOUN: &'static str;
    /// What it is told.
    type Told: Send + 'static;

    fn encode(begin: &BeginRun<Self>, call: &mut Call);

    fn decode(answer: &Answer) -> Result<Tried<Self::Told>, Malformed>;

    /// Notes why no run has begun. True if a broadcast will say when that changes.
    fn is_watched(&mut self, told: &Self::Told) -> bool;
}

impl<T: RunTerms> Operation for BeginRun<T> {
    type Reply = Tried<T::Told>;

    fn script(&self) -> &'static Script {
        let Held { resource, .. } = &self.held;
        resource.script(&resource.kind.acquire)
    }

    fn encode(&self, call: &mut Call) {
        T::encode(self, call);
    }

    fn decode(answer: &Answer) -> Result<Tried<T::Told>, Malformed> {
        T::decode(answer)
    }
}

impl<T: RunTerms> Votable for BeginRun<T> {}

impl Ask<'_> {
    /// Tries until the lock is granted or there is no reason to acquire it. The lease comes with what its grant told.
    pub(crate) async fn begin_run<T: RunTerms>(
        &mut self,
        asked: T,
        calls: &CallNumbers,
        wait: Wait,
    ) -> Result<(Option<Lease>, T::Told), AcquireError> {
        self.end = match wait {
            Wait::Never => Some(self.start),
            Wait::Timeout(limit) => Some(self.start.plus(limit)),
            Wait::Forever | Wait::Poll { .. } => None,
        };
        let (engine, mut progress) = (self.engine, Progress::default());
        let solo = Solo::without_queue(self);
        let mut trying = Trying {
            listener: BroadcastListener::new(engine, T::NOUN, self.lock()),
            ask: self,
            asked,
            calls,
            watches: false,
        };
        let ended = run(&engine.clock, None, &mut progress, &solo, &mut trying).await;
        let ask = trying.ask;
        ask.without_queue(ended, None, &progress)
    }
}

/// Which request of which call: so the store knows a request whose earlier reply was lost from that of another caller.
#[derive(Debug, Clone)]
pub(crate) struct CallNumber {
    /// The token of the first request.
    pub(crate) call: Token,
    /// From 1.
    pub(crate) request: u64,
}

/// Numbers the requests of one call.
#[derive(Debug, Default)]
pub(crate) struct CallNumbers {
    call: OnceLock<Token>,
    requests: AtomicU64,
}

impl CallNumbers {
    /// Returns the number of the next request, which has this token.
    pub(crate) fn next(&self, token: &Token) -> CallNumber {
        CallNumber {
            call: self.call.get_or_init(|| token.clone()).clone(),
            request: self.requests.fetch_add(1, Ordering::Relaxed) + 1,
        }
    }
}

struct Trying<'w, 'a, T> {
    ask: &'w mut Ask<'a>,
    asked: T,
    calls: &'w CallNumbers,
    listener: BroadcastListener,
    /// True once a reply said that a broadcast will follow.
    watches: bool,
}

impl<T: RunTerms> Trying<'_, '_, T> {
    /// Makes one request. Whatever it may leave on the store is cleaned up, unless it is returned.
    async fn try_once(&self, t0: Moment, within: Duration) -> Result<(Option<Outcome>, T::Told)> {
        let ask = &*self.ask;
        let request = BeginRun {
            held: ask.held.clone(),
            terms: ask.request.terms,
            asked: self.asked.clone(),
            number: self.calls.next(&ask.held.token),
        };
        let (guard, era) = (ask.guard_from(t0), ask.era(None));
        let outcome = match ask.engine.ask(&request, within).await {
            Ok((None, told)) => Ok((None, told)),
            Ok((Some(answer), told)) => {
                let outcome = ask.outcome(answer, t0, era, None);
                outcome.map(|outcome| (Some(outcome), told))
            }
            Err(source) => Err(source),
        };
        guard.settle_unless(outcome.as_ref().is_err_and(StoreError::maybe_applied));
        outcome
    }

    fn pause(&self, seen: &Seen, is_heard: bool) -> Duration {
        if let Some(pause) = schedule::behind_the_gate(seen) {
            return pause;
        }
        if !self.watches {
            return schedule::between_tries(seen.remaining, false);
        }
        let usual = broadcast::read_every(is_heard);
        let ends = seen
            .remaining
            .map(|rest| rest + schedule::jittered(AFTER_END / 2, 100));
        ends.map_or(usual, |ends| ends.min(usual))
    }
}

impl<T: RunTerms> Attempts for Trying<'_, '_, T> {
    type Granted = (Option<Lease>, T::Told);

    /// Each try has a token of its own. The first one needs no subscription: mostly it is the last one.
    async fn ask<C: Callers>(
        &mut self,
        now: Moment,
        progress: &mut Progress,
        callers: &C,
    ) -> Result<AttemptReply<Self::Granted>> {
        let Some(within) = callers.time_for_request(progress) else {
            return Ok(AttemptReply::NoTime);
        };
        let (mut t0, mut is_heard) = (now, false);
        if self.watches {
            let subscribed = broadcast::SUBSCRIBED_WITHIN.min(within);
            is_heard = self.listener.listens(subscribed).await;
            t0 = self.ask.now();
        }
        let seen = match self.try_once(t0, within).await {
            Ok((None, told)) => return Ok(AttemptReply::Granted((None, told))),
            Ok((Some(Outcome::Granted(lease, _)), told)) => {
                return Ok(AttemptReply::Granted((Some(lease), told)));
            }
            Ok((Some(Outcome::Busy(seen) | Outcome::Waiting(seen, ..)), told)) => {
                let watched = std::mem::replace(&mut self.watches, self.asked.is_watched(&told));
                self.ask.draw_token()?;
                callers.tell(&seen, 0);
                progress.answered(seen.clone(), 0);
                if self.watches && !watched && !callers.end_before_pause(progress) {
                    return Ok(AttemptReply::Again); // it may have changed before the subscription
                }
                seen
            }
            Err(source) => {
                self.ask.draw_token()?;
                return Err(source);
            }
        };
        Ok(AttemptReply::NotYet(self.pause(&seen, is_heard)))
    }

    async fn woken(&mut self) -> Wake {
        self.listener.told().await;
        Wake::Poll
    }
}
