//! What is asked for, in whatever way: one name, and what its caller wants of it. And the error that it ends with.

use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::Name;

use crate::base::error::{AcquireError, Detail, Lost, LostReason};
use crate::base::{Moment, StoreError, Token};
use crate::engine::guard::owner::Owner;
use crate::engine::services::thread::Background;
use crate::engine::services::{CleanupGuard, Engine, PendingCleanup};
use crate::engine::values::{AcquireRequest, CustomLock, Held, LockMode, Resource, Seen};

/// One acquisition of one name. A way changes nothing of it but the try.
pub(crate) struct Ask<'a> {
    pub(super) engine: &'a Arc<Engine>,
    pub(super) background: &'a Background,
    pub(crate) name: &'a Name,
    /// The lock, and the token of this try.
    pub(super) held: Held,
    pub(super) request: AcquireRequest,
    pub(super) start: Moment,
    /// When its wait ends.
    pub(super) end: Option<Moment>,
    /// For whom it acquires; `None` for an acquisition that shares no hold.
    pub(super) owner: Option<Owner>,
    /// The lock as which a lease of the same token is held once this is granted; `None`: it is a new lease.
    pub(super) becomes: Option<Resource>,
    /// What this try writes, when the lock is not taken in the native way.
    pub(super) custom: Option<Arc<dyn CustomLock>>,
}

impl<'a> Ask<'a> {
    pub(crate) fn new(
        engine: &'a Arc<Engine>,
        name: &'a Name,
        resource: Resource,
        request: AcquireRequest,
    ) -> Result<Self, AcquireError> {
        let internal = |source| AcquireError::Store {
            name: name.clone(),
            source,
        };
        let background = engine.background().map_err(internal)?;
        let token = engine.ids.token(request.terms.fences).map_err(internal)?;
        Ok(Ask {
            engine,
            background,
            name,
            held: Held { resource, token },
            request,
            start: engine.clock.now(),
            end: None,
            owner: None,
            becomes: None,
            custom: None,
        })
    }

    pub(crate) fn owned_by(mut self, owner: Option<Owner>) -> Self {
        self.owner = owner;
        self
    }

    /// Changes a lease that is held, in place: each request is made with its token, and a grant makes it a lease of
    /// `into`.
    pub(crate) fn changing(mut self, token: Token, into: Resource) -> Self {
        self.request.terms.fences = token.is_fenced();
        (self.held.token, self.becomes) = (token, Some(into));
        self
    }

    pub(super) fn now(&self) -> Moment {
        self.engine.clock.now()
    }

    /// How long a request may take.
    pub(super) fn within(&self) -> Duration {
        self.engine.request_timeout(self.request.terms.ttl)
    }

    /// The same, before the wait ends.
    pub(super) fn within_wait(&self) -> Duration {
        let within = self.within();
        self.end
            .map_or(within, |end| within.min(end.saturating_since(self.now())))
    }

    /// Draws the token of the next try. A change keeps the token of its lease.
    pub(super) fn draw_token(&mut self) -> Result<(), StoreError> {
        if self.becomes.is_some() {
            return Ok(());
        }
        self.held.token = self.engine.ids.token(self.request.terms.fences)?;
        Ok(())
    }

    pub(super) fn renew_token(&mut self) -> Result<(), AcquireError> {
        let drawn = self.draw_token();
        drawn.map_err(|source| self.error(source, false))
    }

    /// Cleans up after a request that leaves at this moment.
    pub(super) fn guard_from(&self, now: Moment) -> CleanupGuard {
        let cleanup = PendingCleanup::acquisition(self.held.clone(), self.ends_at_latest(now));
        CleanupGuard::new(
            self.background.cleanup.clone(),
            cleanup.with_custom(self.custom.clone()),
        )
    }

    /// When a grant of a request that leaves now has ended by itself.
    pub(super) fn ends_at_latest(&self, now: Moment) -> Moment {
        now.plus(self.request.terms.ttl.as_duration())
    }

    /// Others were seen to want the lock a moment ago.
    pub(super) fn is_contended(&self) -> bool {
        let requests = &self.engine.requests;
        requests
            .contended
            .contains(&self.held.resource.lock, self.now())
    }

    /// Others want the lock: its requests leave alone for a while.
    pub(super) fn note_contended(&self) {
        let requests = &self.engine.requests;
        requests
            .contended
            .note(&self.held.resource.lock, self.now());
    }
}

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
                requested: LockMode::of(&self.held.resource).permits(),
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
                clear_in: self.request.terms.ttl.as_duration(),
                source,
            },
            _ if may_exist || source.maybe_applied() => AcquireError::Unknown {
                name,
                clear_in: self.request.terms.ttl.as_duration(),
                source,
            },
            _ => AcquireError::Store { name, source },
        }
    }

    pub(super) fn still_busy(&self, seen: Option<Seen>) -> AcquireError {
        let waited = self.now().saturating_since(self.start);
        self.engine
            .still_busy(self.name.clone(), waited, seen.as_ref())
    }
}
