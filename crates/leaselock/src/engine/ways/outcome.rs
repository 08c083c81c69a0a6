//! What a reply or a message means: a lease, a position in the queue, or that the lock is busy.

use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::Fence;

use super::ask::Ask;
use super::turn_budget::Share;
use crate::base::{ErrorKind, Moment, StoreError, span};
use crate::engine::guard::lease::Lease;
use crate::engine::services::wakeups::grant_deadline;
use crate::engine::services::wakeups::grant_deadline::{
    ClockContext, LeaseWindow, ReceivedGrant, Uncertain,
};
use crate::engine::services::{ClockSample, LeaseMachine, LeaseRecord};
use crate::engine::values::{Acquire, Acquired, Held, LogEvent, Seen};
use crate::quorum::executor::Executor;

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
        self.outcome(answer, t0, era.answered_over(self.era(over).connection))
    }

    /// What the reply to a request means that left at `t0` and whose reply is here now.
    pub(super) fn outcome(
        &self,
        answer: Acquired,
        t0: Moment,
        era: ClockContext,
    ) -> Result<Outcome, StoreError> {
        let now = self.engine.clock.now();
        let (Acquired::Granted { time_us, .. }
        | Acquired::Waiting {
            seen: Seen { time_us, .. },
            ..
        }
        | Acquired::Busy {
            seen: Seen { time_us, .. },
        }
        | Acquired::Never { time_us, .. }
        | Acquired::Gone { time_us, .. }
        | Acquired::Disagrees { time_us, .. }) = &answer;
        self.engine.note_time(t0, now, *time_us);
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
                    era,
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
        if let (Some(strict), Some(why)) = (&self.engine.strict, seen.quarantine) {
            let remaining = seen.remaining.unwrap_or_default();
            if strict.saw_quarantine(why, remaining, now) {
                let end = (seen.time_us / 1000 + u64::try_from(remaining.as_millis()).unwrap_or(0))
                    / 1000;
                let event = || LogEvent::new("quarantine_began", why.to_string());
                self.engine
                    .log
                    .note(|| event().fact(format_args!("quarantine/{end}")));
            }
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
        Ok(self.hold(t0, deadline, now, fence))
    }

    /// From here on the lease has an owner, and renewals ask for the whole ttl.
    fn hold(&self, began: Moment, deadline: Moment, now: Moment, fence: Option<Fence>) -> Lease {
        self.engine.announce();
        let longest = self.request.max_hold.unwrap_or(Duration::MAX);
        self.engine.store.limit_session(began.plus(longest));
        let terms = self.request.terms;
        let core = LeaseMachine::granted(
            began,
            deadline,
            now,
            terms.ttl,
            self.engine.drift,
            terms.renews,
            self.request.max_hold,
        );
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
        let kept = kept.logged_by(Arc::downgrade(&self.engine.log));
        let kept = Arc::new(kept.with_custom(self.custom.clone()));
        let id = self.background.renewal.add(Arc::clone(&kept));
        let lease = Lease::new(Arc::clone(self.engine), kept, id);
        let held_for = self.held.for_ttl(terms.ttl);
        self.engine.write_note(held_for, why.as_deref());
        lease
    }
}
