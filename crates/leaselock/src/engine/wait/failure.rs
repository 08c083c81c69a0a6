//! The error that a failed acquisition ends with, and what it may have left behind.

use std::time::Duration;

use super::attempt::Acquisition;
use crate::base::clock::Moment;
use crate::base::error::{AcquireError, Lost, LostReason, StoreError};
use crate::engine::cleanup::guard::CleanupGuard;
use crate::engine::grant::Seen;

impl Acquisition<'_> {
    /// A queue entry that could not be taken back is forgotten after a minute, and could be granted until then.
    fn clear_in(&self) -> Duration {
        const ENTRY_KEPT: Duration = Duration::from_secs(60);
        let in_queue = if self.enters_queue {
            ENTRY_KEPT
        } else {
            Duration::ZERO
        };
        in_queue + self.request.ttl.as_duration()
    }

    /// The error of a wait that ends with an error of the store. `may_exist`: an earlier request of the same token may
    /// have had its effect, although this one had none.
    pub(super) fn failed(
        &self,
        guard: CleanupGuard,
        source: StoreError,
        may_exist: bool,
    ) -> AcquireError {
        guard.settle_unless(may_exist || source.maybe_applied());
        self.error(source, may_exist)
    }

    /// The error for the caller. See [`failed`](Acquisition::failed).
    pub(super) fn error(&self, source: StoreError, may_exist: bool) -> AcquireError {
        let name = self.name.clone();
        if let Some(permits) = source.permits() {
            return AcquireError::TooMany { name, permits };
        }
        if let Some(is_taken) = source.is_gone() {
            let reason = match is_taken {
                true => LostReason::TakenOver,
                false => LostReason::KeyMissing,
            };
            return AcquireError::Lost(Lost::new(name, None, reason));
        }
        if let Some(tally) = source.tally() {
            let (granted, needed) = (tally.granted, tally.needed);
            let votes = tally.votes.clone();
            return AcquireError::NoQuorum {
                name,
                granted,
                needed,
                votes,
                clear_in: self.request.ttl.as_duration(),
                source,
            };
        }
        if may_exist || source.maybe_applied() {
            return AcquireError::Unknown {
                name,
                clear_in: self.clear_in(),
                source,
            };
        }
        AcquireError::Store { name, source }
    }

    pub(super) fn still_busy(&self, start: Moment, seen: Option<Seen>) -> AcquireError {
        let waited = self.engine.clock.now().saturating_since(start);
        self.engine
            .still_busy(self.name.clone(), waited, seen.as_ref())
    }
}
