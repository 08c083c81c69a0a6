//! The error that a failed acquisition ends with, and what it may have left behind.

use super::ask::Ask;
use crate::base::error::{AcquireError, Detail, Lost, LostReason};
use crate::base::{Moment, StoreError};
use crate::engine::services::CleanupGuard;
use crate::engine::values::{LockMode, Seen};

impl Ask<'_> {
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

    /// The error for the caller. See [`failed`](Ask::failed).
    pub(super) fn error(&self, source: StoreError, may_exist: bool) -> AcquireError {
        let name = self.name.clone();
        match source.detail() {
            Detail::TooMany { permits } => AcquireError::TooMany {
                name,
                requested: LockMode::of(&self.resource).permits(),
                permits: *permits,
            },
            Detail::Gone { is_taken } => {
                let reason = match is_taken {
                    true => LostReason::TakenOver,
                    false => LostReason::KeyMissing,
                };
                AcquireError::Lost(Lost::new(name, None, reason))
            }
            Detail::Tally(tally) => AcquireError::NoQuorum {
                name,
                granted: tally.granted,
                needed: tally.needed,
                votes: tally.votes.clone(),
                clear_in: self.request.ttl.as_duration(),
                source,
            },
            _ if may_exist || source.maybe_applied() => AcquireError::Unknown {
                name,
                clear_in: self.request.ttl.as_duration(),
                source,
            },
            _ => AcquireError::Store { name, source },
        }
    }

    pub(super) fn still_busy(&self, start: Moment, seen: Option<Seen>) -> AcquireError {
        let waited = self.engine.clock.now().saturating_since(start);
        self.engine
            .still_busy(self.name.clone(), waited, seen.as_ref())
    }
}
