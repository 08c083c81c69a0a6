//! The first try of an acquisition while many are made: it leaves with others.
//!
//! Such a request takes what is free and never gets in line, and a lock that was free is shared with nobody. So whatever
//! waiting needs (a place for messages, a party) is made only when the try was in vain.

use std::time::Duration;

use super::attempt::Acquisition;
use super::local::groups::LocalGroups;
use super::progress::Progress;
use super::schedule;
use crate::base::clock::Moment;
use crate::base::error::StoreError;
use crate::engine::batch::BatchOutcome;
use crate::engine::calls_many::Item;
use crate::engine::cleanup::CleanupGuard;
use crate::engine::grant::Acquired;
use crate::engine::lease::Lease;

/// What a first try came to.
pub(super) enum FirstTry {
    Granted(Lease),
    /// A wait begins; from scratch when there was no try.
    StartedWait(Option<Box<StartedWait>>),
}

/// A wait whose first try was in vain.
pub(super) struct StartedWait {
    /// Owes the token of the try, which the wait goes on with.
    pub(super) debt: CleanupGuard,
    pub(super) so_far: Progress,
    /// To be waited for before the next request.
    pub(super) pause: Option<Duration>,
}

impl StartedWait {
    /// The task shares a place from now on, and its own token is of no use any more.
    pub(super) fn give_up(self) {
        if !self.so_far.owes() {
            self.debt.settle();
        }
    }
}

impl Acquisition<'_> {
    /// `groups`: tasks of this client that wait for the same lock; `None` where there is no queue.
    pub(super) async fn try_with_others(
        &self,
        groups: Option<&LocalGroups>,
        t0: Moment,
    ) -> Result<FirstTry, StoreError> {
        let engine = self.engine;
        if engine.requests.is_free() {
            return Ok(FirstTry::StartedWait(None)); // there is nobody to leave with
        }
        let lock = &self.keys.lock;
        if groups.is_some_and(|groups| groups.has(lock)) || engine.gates.has(lock) {
            return Ok(FirstTry::StartedWait(None)); // with those who wait already
        }
        let request = &self.request;
        let Some(item) = Item::of(&self.keys, &self.token, request.ttl, request.fences) else {
            return Ok(FirstTry::StartedWait(None));
        };
        let within = engine.request_timeout(self.request.ttl);
        let debt = self.guard_from(t0);
        let Some(told) = engine.requests.acquire_with_others(item, t0, within) else {
            debt.settle();
            return Ok(FirstTry::StartedWait(None));
        };
        match self.held(told.await, t0) {
            Ok(Ok(lease)) => {
                debt.settle();
                Ok(FirstTry::Granted(lease))
            }
            Ok(Err(so_far)) => Ok(begun(debt, so_far, None)),
            Err(source) if source.may_pass() => {
                let mut so_far = Progress::default();
                let pause = schedule::jittered(so_far.failed(&source), 50);
                Ok(begun(debt, so_far, Some(pause)))
            }
            Err(source) => {
                debt.settle_unless(source.maybe_applied());
                Err(source)
            }
        }
    }

    /// The lease, or what is known without it.
    fn held(
        &self,
        told: BatchOutcome<Acquired>,
        t0: Moment,
    ) -> Result<Result<Lease, Progress>, StoreError> {
        let answer = match told {
            BatchOutcome::Answer(answer) => answer?,
            BatchOutcome::NotPlain => return Ok(Err(Progress::default())),
            BatchOutcome::Alone => {
                self.goes_by_itself();
                return Ok(Err(Progress::default()));
            }
        };
        let now = self.engine.clock.now();
        match answer {
            Acquired::Granted { fence, time_us, .. } => {
                self.engine.note_time(t0, now, time_us);
                self.hold_since(t0, now, fence).map(Ok)
            }
            Acquired::Disagrees { .. } => Ok(Err(Progress::default())), // it goes by itself and hears so again
            Acquired::Busy { seen } | Acquired::Waiting { seen, .. } => {
                self.engine.note_time(t0, now, seen.time_us);
                self.goes_by_itself();
                Ok(Err(Progress::after(Some(seen))))
            }
        }
    }

    pub(super) fn goes_by_itself(&self) {
        let now = self.engine.clock.now();
        self.engine.requests.note_contended(&self.keys.lock, now);
    }
}

fn begun(debt: CleanupGuard, so_far: Progress, pause: Option<Duration>) -> FirstTry {
    FirstTry::StartedWait(Some(Box::new(StartedWait {
        debt,
        so_far,
        pause,
    })))
}
