//! One acquisition of one name, in whatever way: what is asked for, and what a reply or a message means: a lease, a position
//! in the queue, that the lock is busy, or the error with which it ends.

use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::{Fence, Name};

use super::turn_budget::Share;
use crate::base::error::{AcquireError, Detail, Lost, LostReason};
use crate::base::{ErrorKind, Moment, StoreError, Token, span};
use crate::engine::guard::lease::Lease;
use crate::engine::guard::owner::Owner;
use crate::engine::services::thread::Background;
use crate::engine::services::wakeups::grant_deadline;
use crate::engine::services::wakeups::grant_deadline::{
    ClockContext, LeaseWindow, ReceivedGrant, Uncertain,
};
use crate::engine::services::{
    CleanupGuard, ClockSample, Engine, LeaseMachine, LeaseRecord, LeaseTerms, PendingCleanup,
};
use crate::engine::values::{
    Acquire, AcquireRequest, Acquired, CustomLock, Held, LockMode, Resource, Seen,
};
use crate::quorum::executor::Executor;

/// One acquisition of one name. The choice of its way sets when the wait begins and ends; the way then changes nothing but
/// the try: its token, and what it writes.
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
        owner: Option<Owner>,
        start: Moment,
    ) -> Result<Self, AcquireError> {
        let internal = |source| AcquireError::Store {
            name: name.clone(),
            source,
        };
        let background = engine.background().map_err(internal)?;
        let token = engine.ids.token(request.terms.fences, start);
        let token = token.map_err(internal)?;
        Ok(Ask {
            engine,
            background,
            name,
            held: Held { resource, token },
            request,
            start,
            end: None,
            owner,
            becomes: None,
            custom: None,
        })
    }

    /// Changes a lease that is held, in place: each request is made with its token, and a grant makes it a lease of
    /// `into`.
    pub(crate) fn changing(mut self, token: Token, into: Resource) -> Self {
        self.request.terms.fences = token.is_fenced();
        (self.held.token, self.becomes) = (token, Some(into));
        self
    }

    /// The key of the lock.
    pub(super) fn lock(&self) -> &Arc<str> {
        &self.held.resource.lock
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
        let fences = self.request.terms.fences;
        self.held.token = self.engine.ids.token(fences, self.now())?;
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
        requests.contended.contains(self.lock(), self.now())
    }

    /// Others want the lock: its requests leave alone for a while.
    pub(super) fn note_contended(&self) {
        let requests = &self.engine.requests;
        requests.contended.note(self.lock(), self.now());
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

/// What one request came to.
pub(super) enum Outcome {
    Granted(Lease, Share),
    /// In the queue at this position.
    Waiting(Seen, u64, ClockSample),
    Busy(Seen),
}

impl Ask<'_> {
    /// Makes one request, which begins at `t0`: read before this, and so before it can leave. The caller has a cleanup
    /// guard for the token. `over`: the connection of the client's thread; `None`: requests go over the user's own, by
    /// themselves or with others.
    pub(super) async fn request(
        &self,
        acquire: &Acquire<'_>,
        over: Option<&Executor>,
        t0: Moment,
        within: Duration,
    ) -> Result<Outcome, StoreError> {
        let era = self.era(over);
        let answer = match over {
            // Large, as is each way that is not the plain one.
            Some(connection) => Box::pin(connection.ask(acquire, within)).await?,
            None => self.engine.requests.acquire(acquire, t0, within).await?,
        };
        self.outcome(answer, t0, era, over)
    }

    /// What the reply to a request means that left at `t0` and whose reply is here now.
    pub(super) fn outcome(
        &self,
        answer: Acquired,
        t0: Moment,
        era: ClockContext,
        over: Option<&Executor>,
    ) -> Result<Outcome, StoreError> {
        let now = self.engine.clock.now();
        self.engine.note_time(t0, now, answer.time_us());
        match answer {
            Acquired::Granted {
                fence,
                range,
                others,
                ..
            } => {
                let share = Share { range, others };
                let lease = self.hold_since(t0, now, fence)?;
                lease.parts().1.set_range(range.max(1));
                Ok(Outcome::Granted(lease, share))
            }
            Acquired::Waiting { seen, position } => {
                self.engine.announce();
                let reading = ClockSample {
                    sent: t0,
                    received: now,
                    server_us: seen.time_us,
                    era: era.answered_over(self.era(over).connection),
                };
                Ok(Outcome::Waiting(seen, position, reading))
            }
            Acquired::Busy { seen } => {
                self.met_quarantine(&seen, now);
                Ok(Outcome::Busy(seen))
            }
            Acquired::Never { permits, .. } => Err(StoreError::too_many(permits)),
            Acquired::Gone { is_taken, .. } => Err(StoreError::gone(is_taken)),
            Acquired::Disagrees { longest, .. } => Err(self.disagrees(longest)),
        }
    }

    /// What it asks of a store that decides by itself. `range`: how many fencing tokens a grant reserves after a wait.
    pub(super) fn acquire_call<'b>(
        &'b self,
        waits: bool,
        channel: &'b str,
        range: u64,
    ) -> Acquire<'b> {
        Acquire {
            held: &self.held,
            terms: self.request.terms,
            waits,
            channel,
            range,
        }
    }

    pub(super) fn met_quarantine(&self, seen: &Seen, now: Moment) {
        let strict = self.engine.strict.as_ref();
        if let Some(event) = strict.and_then(|it| it.began(seen, now)) {
            self.engine.log.note(|| event);
        }
    }

    pub(super) fn disagrees(&self, longest: Duration) -> StoreError {
        let ours = self.engine.gate().map(|gate| gate.longest.as_duration());
        let message = format!(
            "strict mode is set up there for leases of at most {}, and this client says {}: all must say the same, \
             and an operator can change it (`leaselock strict init`)",
            span(longest),
            span(ours.unwrap_or_default())
        );
        StoreError::refused(ErrorKind::Mismatch, message)
    }

    /// What answers and messages that belong together have in common.
    pub(super) fn era(&self, over: Option<&Executor>) -> ClockContext {
        ClockContext {
            connection: over.unwrap_or(&self.engine.store).epoch(),
            subscription: self.background.notifier.subscription(),
            jumps: self.engine.clock_watch.jumps(),
        }
    }

    /// The lease that a message brings, when the message alone can tell until when it may be used.
    pub(super) fn taken(
        &self,
        reading: &ClockSample,
        heard: &ReceivedGrant,
        over: Option<&Executor>,
    ) -> Result<(Lease, Share), Uncertain> {
        if self.engine.strict.is_some() {
            return Err(Uncertain::Strict);
        }
        let (era, now) = (self.era(over), self.now());
        let LeaseWindow { began, deadline } =
            grant_deadline::reckon(reading, heard, era, now, self.engine.drift)?;
        let share = Share {
            range: u64::from(heard.grant.range),
            others: heard.grant.others,
        };
        let lease = self.hold(began, deadline, now, heard.grant.fence);
        lease.parts().1.set_range(share.range.max(1));
        Ok((lease, share))
    }

    /// The lease of a grant whose request left at `t0` and whose answer is here now.
    pub(super) fn hold_since(
        &self,
        t0: Moment,
        now: Moment,
        fence: Option<Fence>,
    ) -> Result<Lease, StoreError> {
        let deadline = self.engine.drift.deadline(t0, self.request.terms.ttl);
        if now >= deadline {
            // It may be another's by now.
            return Err(StoreError::unknown(
                ErrorKind::NoReply,
                "the grant arrived after its own deadline",
            ));
        }
        let (strict, is_one) = (&self.engine.strict, !self.engine.store.is_cluster());
        if let Some(event) = strict.as_ref().and_then(|it| it.ended(now, is_one)) {
            self.engine.log.note(|| event);
        }
        Ok(self.hold(t0, deadline, now, fence))
    }

    /// From here on the lease has an owner, and renewals ask for the whole ttl.
    fn hold(&self, began: Moment, deadline: Moment, now: Moment, fence: Option<Fence>) -> Lease {
        self.engine.announce();
        let longest = self.request.max_hold.unwrap_or(Duration::MAX);
        self.engine.store.limit_session(began.plus(longest));
        let terms = LeaseTerms::of(self.request.terms, self.request.max_hold, began);
        let core = LeaseMachine::granted(began, deadline, now, terms, self.engine.drift);
        // Another library's lock has it in its value, or nowhere.
        let why = self.request.why.clone().filter(|_| self.custom.is_none());
        let resource = self.becomes.as_ref().unwrap_or(&self.held.resource);
        let kept = LeaseRecord::new(
            self.name.clone(),
            Held::of(resource, &self.held.token),
            fence,
            why.clone(),
            self.engine.clock.clone(),
            core,
        );
        let log = Arc::downgrade(&self.engine.log);
        let kept = Arc::new(kept.of(self.custom.clone(), log));
        let id = self.background.renewal.add(Arc::clone(&kept));
        let lease = Lease::new(Arc::clone(self.engine), kept, id);
        let held_for = self.held.for_ttl(terms.asked.ttl);
        self.engine.write_note(held_for, why.as_deref());
        lease
    }
}
