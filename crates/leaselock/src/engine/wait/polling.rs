//! Waiting for a lock that is not taken in the native way: there is no line, so whoever waits tries again.
//!
//! Of the tasks of one client that wait for the same lock, one tries; the others stand behind it, in order.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::{Acquisition, Outcome, may_pass};
use super::local::budget::Share;
use super::local::keyed_mutex::Entry;
use super::schedule;
use super::standing::NEVER_ANSWERED;
use crate::base::clock::Moment;
use crate::base::error::{AcquireError, StoreError};
use crate::engine::custom::{CustomLock, ReleaseSignal, TakeOutcome};
use crate::engine::grant::Seen;
use crate::engine::lease::Lease;

impl Acquisition<'_> {
    /// What the next request writes, which may be when the lock ends: so the lease is counted from before this. New for
    /// each, so that one whose answer was lost can be told from the next.
    pub(super) async fn make_claim(&mut self) -> Result<(), AcquireError> {
        let within = self.engine.request_timeout(self.request.ttl);
        let before = self.claim.take();
        let Some(custom) = &self.request.custom else {
            return Ok(());
        };
        let failed = |source| AcquireError::Store {
            name: self.name.clone(),
            source,
        };
        let connections = self.engine.connections().map_err(failed)?;
        let (keys, token) = (&self.keys, &self.token);
        let made = custom.prepare(keys, token, self.request.ttl, before, &connections, within);
        self.claim = Some(made.await.map_err(failed)?);
        Ok(())
    }

    /// One try in another way than the native one.
    pub(super) async fn request_by(
        &self,
        claim: &Arc<dyn CustomLock>,
        t0: Moment,
        within: Duration,
    ) -> Result<Outcome, StoreError> {
        let store = self.lane.unwrap_or(&self.engine.store);
        match claim.take(store, self.request.ttl, within).await? {
            TakeOutcome::Taken => {
                let now = self.engine.clock.now();
                let lease = self.hold_since(t0, now, None)?;
                Ok(Outcome::Granted(
                    lease,
                    Share {
                        range: 1,
                        others: false,
                    },
                ))
            }
            TakeOutcome::Busy { remaining } => Ok(Outcome::Busy(Seen {
                remaining,
                holder: None,
                time_us: 0,
                quarantine: None,
            })),
        }
    }

    /// Tries until the lock is had or the time is over.
    pub(super) async fn wait_behind_others(
        mut self,
        start: Moment,
        end: Option<Moment>,
    ) -> Result<Lease, AcquireError> {
        let gate = self.enter(start, end).await?;
        let (mut answered, mut failures) = (false, 0);
        let mut signal: Option<Box<dyn ReleaseSignal>> = None;
        let mut seen = None;
        loop {
            let (error, pause) = match self.try_once().await {
                Ok(Ok(lease)) => {
                    if let Some(signal) = &mut signal {
                        signal.has_tried(self.now());
                    }
                    return Ok(lease);
                }
                Ok(Err(busy)) => {
                    if let Some(signal) = &mut signal {
                        signal.has_tried(self.now());
                    }
                    gate.says(None);
                    self.tell(&busy, 1);
                    let first = !std::mem::replace(&mut answered, true);
                    failures = 0;
                    let mut pause = schedule::between_tries(
                        busy.remaining,
                        signal.as_ref().is_some_and(|signal| signal.is_heard()),
                    );
                    if first {
                        signal = self.listen(end).await;
                        if signal.is_some() {
                            pause = Duration::ZERO; // it may have been told just before
                        }
                    }
                    seen = Some(busy.clone());
                    (self.still_busy(start, Some(busy)), pause)
                }
                Err(error) if may_pass(&error) => {
                    if let Some(source) = store_error(&error) {
                        self.tell_error(seen.as_ref().map(|seen| (seen, 1)), source);
                    }
                    failures += 1;
                    let given_up = !answered && self.now() >= start.plus(NEVER_ANSWERED);
                    if given_up {
                        gate.says(store_error(&error).cloned());
                        return Err(error);
                    }
                    (
                        error,
                        schedule::jittered(schedule::after_error(failures), 50),
                    )
                }
                Err(error) => return Err(error),
            };
            let rung = async {
                match &signal {
                    Some(signal) => signal.told(&self.engine.clock).await,
                    None => std::future::pending().await,
                }
            };
            if !self.pauses(&gate, pause, end, rung).await {
                return Err(error);
            }
            self.renew_token()?;
        }
    }

    /// Between two tries, no longer than until somebody rings or a task of this client lets go. False when the time of
    /// the whole wait was over before.
    pub(super) async fn pauses(
        &self,
        gate: &Entry,
        pause: Duration,
        end: Option<Moment>,
        rung: impl Future<Output = ()>,
    ) -> bool {
        let now = self.now();
        if end.is_some_and(|end| now >= end) {
            return false;
        }
        let again = now.plus(pause);
        let until = end.map_or(again, |end| end.min(again));
        tokio::select! {
            () = gate.released() => {}
            () = rung => {}
            () = self.engine.clock.sleep_until(until) => {}
        }
        true
    }

    /// Listens as the others do, as long as there is time.
    async fn listen(&self, end: Option<Moment>) -> Option<Box<dyn ReleaseSignal>> {
        let connections = self.engine.connections().ok()?;
        let within = self.engine.request_timeout(self.request.ttl);
        let left = end.map_or(within, |end| end.saturating_since(self.now()));
        let claim = self.claim.as_ref()?;
        claim.listen(&connections, within.min(left)).await
    }

    /// Through the gate, behind those of this client who came before, unless the time ends first or they have found that
    /// nobody answers.
    pub(super) async fn enter(
        &self,
        start: Moment,
        end: Option<Moment>,
    ) -> Result<Entry, AcquireError> {
        let clock = &self.engine.clock;
        let interest = self.engine.gates.before(&self.keys.lock);
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
        Ok(interest.passes(turn))
    }
}

/// What the store said, or that it said nothing.
fn store_error(error: &AcquireError) -> Option<&StoreError> {
    match error {
        AcquireError::Unknown { source, .. } | AcquireError::Store { source, .. } => Some(source),
        _ => None,
    }
}
