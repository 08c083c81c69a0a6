//! Waiting for a lock of another library: it has no queue, so a waiter tries again and again.
//!
//! Of the tasks of one client that wait for the same lock, one tries. The others wait behind it, in order.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::{Acquisition, Outcome};
use super::patience::{NEVER_ANSWERED, Patience};
use super::run::{Attempt, AttemptReply, Callers, WaitEnd, Wake, run};
use super::schedule;
use super::solo::Solo;
use super::turn_budget::Share;
use crate::base::clock::Moment;
use crate::base::error::{AcquireError, StoreError};
use crate::base::keyed_mutex::KeyedMutexGuard;
use crate::engine::guard::lease::Lease;
use crate::engine::values::custom::{CustomLock, ReleaseSignal, TakeOutcome};
use crate::engine::values::grant::Seen;

impl Acquisition<'_> {
    /// Makes what the next request writes. It may say when the lock ends, so the lease is counted from before this. It is
    /// new for each try, so that a try whose reply was lost can be told from the next one.
    pub(super) async fn prepare_custom(&mut self) -> Result<(), StoreError> {
        let within = self.engine.request_timeout(self.request.ttl);
        let before = self.custom.take();
        let Some(custom) = &self.request.custom else {
            return Ok(());
        };
        let connections = self.engine.connections()?;
        let (resource, token) = (&self.resource, &self.token);
        let made = custom.prepare(
            resource,
            token,
            self.request.ttl,
            before,
            &connections,
            within,
        );
        self.custom = Some(made.await?);
        Ok(())
    }

    /// Makes one try in the other library's way.
    pub(super) async fn request_by(
        &self,
        custom: &Arc<dyn CustomLock>,
        t0: Moment,
        within: Duration,
    ) -> Result<Outcome, StoreError> {
        let store = self.connection.unwrap_or(&self.engine.store);
        match custom.take(store, self.request.ttl, within).await? {
            TakeOutcome::Taken => {
                let now = self.engine.clock.now();
                let lease = self.hold_since(t0, now, None)?;
                Ok(Outcome::Granted(lease, Share::NONE))
            }
            TakeOutcome::Busy { remaining } => Ok(Outcome::Busy(Seen {
                remaining,
                holder: None,
                time_us: 0,
                quarantine: None,
            })),
        }
    }

    /// Tries until the lock is granted or the time is over.
    pub(super) async fn wait_by_polling(
        &mut self,
        start: Moment,
        end: Option<Moment>,
    ) -> Result<Lease, AcquireError> {
        let turn = self.wait_for_turn(start, end).await?;
        let (clock, mut patience) = (&self.engine.clock, Patience::default());
        let solo = Solo::without_queue(self, start, end);
        let mut polling = Polling {
            acquisition: self,
            turn: &turn,
            end,
            signal: None,
            has_tried: false,
        };
        let ended = run(clock, None, &mut patience, &solo, &mut polling).await;
        self.without_queue(ended, &turn, start, &patience)
    }

    /// What a wait without a queue came to: the error of the latest request, or that the lock is still busy.
    pub(super) fn without_queue(
        &self,
        ended: WaitEnd<Lease>,
        turn: &KeyedMutexGuard,
        start: Moment,
        patience: &Patience,
    ) -> Result<Lease, AcquireError> {
        let source = match ended {
            WaitEnd::Granted(lease) => return Ok(lease),
            WaitEnd::Failed(source) => Some(source),
            WaitEnd::Over | WaitEnd::HandedOver | WaitEnd::NoTime => {
                let silence = patience.never_answered().cloned();
                if silence.is_some() && self.now() >= start.plus(NEVER_ANSWERED) {
                    turn.report(silence);
                }
                patience.error.clone()
            }
        };
        Err(match source {
            Some(source) => self.error(source, false),
            None => self.still_busy(start, patience.seen.clone()),
        })
    }

    /// Subscribes to what the lock's other users announce, while there is time.
    async fn listen(&self, end: Option<Moment>) -> Option<Box<dyn ReleaseSignal>> {
        let connections = self.engine.connections().ok()?;
        let within = self.engine.request_timeout(self.request.ttl);
        let left = end.map_or(within, |end| end.saturating_since(self.now()));
        let custom = self.custom.as_ref()?;
        custom.listen(&connections, within.min(left)).await
    }

    /// Waits behind the tasks of this client that came before, unless the time is over first, or they have found that the
    /// store is not there.
    pub(super) async fn wait_for_turn(
        &self,
        start: Moment,
        end: Option<Moment>,
    ) -> Result<KeyedMutexGuard, AcquireError> {
        let clock = &self.engine.clock;
        let interest = self.engine.poll_mutexes.interest(&self.resource.lock);
        let silence = async {
            clock.sleep_until(start.plus(NEVER_ANSWERED)).await;
            interest.given_up().await
        };
        let over = async {
            match end {
                Some(end) => clock.sleep_until(end).await,
                None => std::future::pending().await,
            }
        };
        let turn = tokio::select! {
            biased;
            turn = interest.turn() => turn,
            source = silence => {
                let name = self.name.clone();
                return Err(AcquireError::Store { name, source });
            }
            () = over => return Err(self.still_busy(start, None)),
        };
        Ok(interest.enter(turn))
    }
}

/// Tries for a lock without a queue, until one try takes it. Each try has a token of its own.
struct Polling<'a, 'e> {
    acquisition: &'a mut Acquisition<'e>,
    turn: &'a KeyedMutexGuard,
    end: Option<Moment>,
    signal: Option<Box<dyn ReleaseSignal>>,
    has_tried: bool,
}

impl Attempt for Polling<'_, '_> {
    type Granted = Lease;

    async fn ask<C: Callers>(
        &mut self,
        _now: Moment,
        patience: &mut Patience,
        callers: &C,
    ) -> Result<AttemptReply<Lease>, StoreError> {
        if std::mem::replace(&mut self.has_tried, true) {
            self.acquisition.draw_token()?;
        }
        let tried = self.acquisition.try_once().await?;
        if let Some(signal) = &mut self.signal {
            signal.has_tried(self.acquisition.now());
        }
        let seen = match tried {
            Ok(lease) => return Ok(AttemptReply::Granted(lease)),
            Err(seen) => seen,
        };
        self.turn.report(None);
        callers.tell(&seen, 1);
        let is_heard = self.signal.as_ref().is_some_and(|signal| signal.is_heard());
        let mut pause = schedule::between_tries(seen.remaining, is_heard);
        if !patience.has_met_the_store() {
            self.signal = self.acquisition.listen(self.end).await;
            if self.signal.is_some() {
                pause = Duration::ZERO; // the release may have been announced just before
            }
        }
        patience.answered(seen, 1);
        Ok(AttemptReply::NotYet(pause))
    }

    async fn woken(&mut self) -> Wake {
        let announced = async {
            match &self.signal {
                Some(signal) => signal.told(&self.acquisition.engine.clock).await,
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
