//! Waiting for a lock of another library: it has no queue, so a waiter tries again and again.
//!
//! Of the tasks of one client that wait for the same lock, one tries. The others wait behind it, in order (`turn.rs`).

use std::time::Duration;

use super::ask::Ask;
use super::patience::Patience;
use super::run::{AttemptReply, Attempts, Callers, Wake, run};
use super::schedule;
use super::solo::Solo;
use crate::base::error::AcquireError;
use crate::base::keyed_mutex::KeyedMutexGuard;
use crate::base::{Moment, StoreError};
use crate::engine::guard::lease::Lease;
use crate::engine::values::custom::ReleaseSignal;

impl Ask<'_> {
    /// Tries until the lock is granted or the time is over.
    pub(super) async fn poll(
        &mut self,
        start: Moment,
        end: Option<Moment>,
    ) -> Result<Lease, AcquireError> {
        let turn = self.wait_for_turn(start, end).await?;
        let (clock, mut patience) = (&self.engine.clock, Patience::default());
        let solo = Solo::without_queue(self, start, end);
        let mut polling = Polling {
            ask: self,
            turn: &turn,
            end,
            signal: None,
            has_tried: false,
        };
        let ended = run(clock, None, &mut patience, &solo, &mut polling).await;
        let ask = polling.ask;
        ask.without_queue(ended, Some(&turn), start, &patience)
    }

    /// Subscribes to what the lock's other users announce, while there is time.
    async fn listen(&self, end: Option<Moment>) -> Option<Box<dyn ReleaseSignal>> {
        let connections = self.engine.connections().ok()?;
        let custom = self.custom.as_ref()?;
        custom.listen(&connections, self.within_until(end)).await
    }
}

/// Tries for a lock without a queue, until one try takes it. Each try has a token of its own.
struct Polling<'a, 'e> {
    ask: &'a mut Ask<'e>,
    turn: &'a KeyedMutexGuard,
    end: Option<Moment>,
    signal: Option<Box<dyn ReleaseSignal>>,
    has_tried: bool,
}

impl Attempts for Polling<'_, '_> {
    type Granted = Lease;

    async fn ask<C: Callers>(
        &mut self,
        now: Moment,
        patience: &mut Patience,
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
        if !patience.has_met_the_store() {
            self.signal = self.ask.listen(self.end).await;
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
