//! Waiting for a lock of another library: it has no queue, so a waiter tries again and again.
//!
//! Of the tasks of one client that wait for the same lock, one tries. The others wait behind it, in order.

use std::time::Duration;

use super::ask::Ask;
use super::run::{
    AttemptReply, Attempts, Callers, NEVER_ANSWERED, Progress, Solo, WaitEnd, Wake, run,
};
use super::schedule;
use crate::base::error::AcquireError;
use crate::base::keyed_mutex::{KeyedMutexGuard, STALLED_AFTER};
use crate::base::{Moment, StoreError};
use crate::engine::guard::lease::Lease;
use crate::engine::values::custom::ReleaseSignal;

impl Ask<'_> {
    /// Waits behind the tasks of this client that came before, unless the time is over first, or they have found that the
    /// store is not there. One that is not polled any more is left behind.
    pub(super) async fn wait_for_turn(&self) -> Result<KeyedMutexGuard, AcquireError> {
        let (clock, turns) = (&self.engine.clock, &self.engine.shared.poll_mutexes);
        loop {
            let interest = turns.interest(self.lock());
            let silence = async {
                clock.sleep_until(self.start.plus(NEVER_ANSWERED)).await;
                interest.given_up().await
            };
            let turn = tokio::select! {
                biased;
                turn = interest.turn_unless_stalled(clock, STALLED_AFTER) => turn,
                source = silence => {
                    let name = self.name.clone();
                    return Err(AcquireError::Store { name, source });
                }
                () = clock.sleep_until_end(self.end) => return Err(self.still_busy(None)),
            };
            if let Some(turn) = turn {
                return Ok(interest.enter(turn));
            }
        }
    }

    /// True if tasks of this client wait for the lock without a queue: one tries, and the others wait behind it.
    pub(super) fn has_turns(&self) -> bool {
        self.engine.shared.poll_mutexes.has(self.lock())
    }

    /// What a wait without a queue came to: the error of the latest request, or that the lock is still busy. `turn`: that
    /// of this task, if other tasks wait behind it.
    pub(super) fn without_queue<T>(
        &self,
        ended: WaitEnd<T>,
        turn: Option<&KeyedMutexGuard>,
        progress: &Progress,
    ) -> Result<T, AcquireError> {
        let source = match ended {
            WaitEnd::Granted(granted) => return Ok(granted),
            WaitEnd::Failed(source) => Some(source),
            WaitEnd::Over | WaitEnd::HandedOver | WaitEnd::NoTime => {
                let silence = progress.never_answered().cloned();
                if let Some(turn) = turn
                    && silence.is_some()
                    && self.now() >= self.start.plus(NEVER_ANSWERED)
                {
                    turn.report(silence);
                }
                progress.error.clone()
            }
        };
        Err(match source {
            Some(source) => self.error(source, false),
            None => self.still_busy(progress.seen.clone()),
        })
    }
}

impl Ask<'_> {
    /// Tries until the lock is granted or the time is over.
    pub(super) async fn poll(&mut self) -> Result<Lease, AcquireError> {
        let turn = self.wait_for_turn().await?;
        let (clock, mut progress) = (&self.engine.clock, Progress::default());
        let solo = Solo::without_queue(self);
        let mut polling = Polling {
            ask: self,
            turn: &turn,
            signal: None,
            has_tried: false,
        };
        let ended = run(clock, None, &mut progress, &solo, &mut polling).await;
        let ask = polling.ask;
        ask.without_queue(ended, Some(&turn), &progress)
    }

    /// Subscribes to what the lock's other users announce, while there is time.
    async fn listen(&self) -> Option<Box<dyn ReleaseSignal>> {
        let connections = self.engine.connections().ok()?;
        let custom = self.custom.as_ref()?;
        custom.listen(&connections, self.within_wait()).await
    }
}

/// Tries for a lock without a queue, until one try takes it. Each try has a token of its own.
struct Polling<'a, 'e> {
    ask: &'a mut Ask<'e>,
    turn: &'a KeyedMutexGuard,
    signal: Option<Box<dyn ReleaseSignal>>,
    has_tried: bool,
}

impl Attempts for Polling<'_, '_> {
    type Granted = Lease;

    async fn ask<C: Callers>(
        &mut self,
        now: Moment,
        progress: &mut Progress,
        callers: &C,
    ) -> Result<AttemptReply<Lease>, StoreError> {
        self.turn.tries(now);
        if std::mem::replace(&mut self.has_tried, true) {
            self.ask.draw_token()?;
        }
        let tried = self.ask.try_once().await?;
        if let Some(signal) = &mut self.signal {
            signal.has_tried(self.ask.now());
        }
        let seen = match tried {
            Ok(lease) => return Ok(AttemptReply::Granted(lease)),
            Err(seen) => seen,
        };
        self.turn.report(None);
        callers.tell(&seen, 1);
        let is_heard = self.signal.as_ref().is_some_and(|signal| signal.is_heard());
        let mut pause = schedule::between_tries(seen.remaining, is_heard);
        if !progress.has_met_the_store() {
            self.signal = self.ask.listen().await;
            if self.signal.is_some() {
                pause = Duration::ZERO; // the release may have been announced just before
            }
        }
        progress.answered(seen, 1);
        Ok(AttemptReply::NotYet(pause))
    }

    async fn woken(&mut self) -> Wake {
        let announced = async {
            match &self.signal {
                Some(signal) => signal.told(&self.ask.engine.clock).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.turn.released() => {}
            () = announced => {}
        }
        Wake::Poll
    }
}
