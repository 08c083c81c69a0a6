//! The first try of an acquisition while many are made: it leaves with others.
//!
//! Such a request is granted at once or not at all, and never enters the queue. So what a wait needs (a registration for messages,
//! a local group) is made only when the try was in vain.

use std::time::Duration;

use super::ask::Ask;
use super::run::Progress;
use crate::base::{Moment, StoreError};
use crate::engine::guard::lease::Lease;
use crate::engine::services::CleanupGuard;
use crate::engine::services::batch::BatchOutcome;
use crate::engine::values::{Acquired, Item};

pub(super) enum FirstTry {
    Granted(Lease),
    /// A wait begins; from scratch when there was no try.
    StartedWait(Option<Box<StartedWait>>),
}

/// A wait whose first try was in vain.
pub(crate) struct StartedWait {
    /// Cleans up the token of the try, with which the wait goes on.
    pub(super) guard: CleanupGuard,
    pub(super) progress: Progress,
    /// The pause before the next request.
    pub(super) pause: Option<Duration>,
}

impl StartedWait {
    /// The task shares a queue entry from now on, and its own token is of no use any more.
    pub(super) fn give_up(self) {
        if !self.progress.maybe_applied() {
            self.guard.settle();
        }
    }
}

impl Ask<'_> {
    /// `is_waited_for`: tasks of this client wait for the same lock already.
    pub(super) async fn try_with_others(
        &self,
        is_waited_for: impl FnOnce() -> bool,
        t0: Moment,
    ) -> Result<FirstTry, StoreError> {
        let engine = self.engine;
        if engine.requests.acquires.is_free() {
            return Ok(FirstTry::StartedWait(None)); // there is no other request to leave with
        }
        if is_waited_for() {
            return Ok(FirstTry::StartedWait(None)); // with those tasks
        }
        let Some(item) = Item::of(&self.held, self.request.terms) else {
            return Ok(FirstTry::StartedWait(None));
        };
        let within = self.within();
        let guard = self.guard_from(t0);
        let Some(outcome) = engine.requests.acquires.join(item, t0, within) else {
            guard.settle();
            return Ok(FirstTry::StartedWait(None));
        };
        match self.decode(outcome.await, t0) {
            Ok(Ok(lease)) => {
                guard.settle();
                Ok(FirstTry::Granted(lease))
            }
            Ok(Err(progress)) => Ok(begin(guard, progress, None)),
            Err(source) if source.is_transient() => {
                let mut progress = Progress::default();
                let pause = progress.failed(source);
                Ok(begin(guard, progress, Some(pause)))
            }
            Err(source) => {
                guard.settle_unless(source.maybe_applied());
                Err(source)
            }
        }
    }

    /// The lease, or what is known without it.
    fn decode(
        &self,
        outcome: BatchOutcome<Acquired>,
        t0: Moment,
    ) -> Result<Result<Lease, Progress>, StoreError> {
        let answer = match outcome {
            BatchOutcome::Answer(answer) => answer?,
            BatchOutcome::NotPlain => return Ok(Err(Progress::default())),
            BatchOutcome::Alone => {
                self.note_contended();
                return Ok(Err(Progress::default()));
            }
        };
        let now = self.now();
        match answer {
            Acquired::Granted { fence, time_us, .. } => {
                self.engine.note_time(t0, now, time_us);
                self.hold_since(t0, now, fence).map(Ok)
            }
            // It goes by itself and hears so again.
            Acquired::Never { .. } | Acquired::Gone { .. } | Acquired::Disagrees { .. } => {
                Ok(Err(Progress::default()))
            }
            Acquired::Busy { seen } | Acquired::Waiting { seen, .. } => {
                self.engine.note_time(t0, now, seen.time_us);
                self.note_contended();
                Ok(Err(Progress::after(Some(seen))))
            }
        }
    }
}

fn begin(guard: CleanupGuard, progress: Progress, pause: Option<Duration>) -> FirstTry {
    FirstTry::StartedWait(Some(Box::new(StartedWait {
        guard,
        progress,
        pause,
    })))
}
