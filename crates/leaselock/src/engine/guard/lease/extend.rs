//! Extending a lease, and changing how it is held.

use std::time::Duration;

use futures_util::future::join_all;
use leaselock_fence::Fence;
use tracing::field::Empty;

use super::handle::Lease;
use super::request_span::RequestSpan;
use crate::base::Ttl;
use crate::base::error::{LeaseError, LostReason};
use crate::engine::values::calls_optional::Keep;
use crate::engine::values::{Extend, ExtendAnswer, LockServer};

impl<M> Lease<M> {
    /// Extends the lease to `ttl` from now. Later renewals use the same `ttl`.
    ///
    /// It never shortens the present deadline, and never revives a lost lease.
    ///
    /// # Waiting
    /// One request, within the request timeout; of several names one for each, all at once. Every six hours one more, for
    /// what the store remembers beside the lease.
    ///
    /// # Cancel safety
    /// When dropped, the extension may have happened; the lease is held until its old deadline at least.
    ///
    /// # Errors
    /// [`LeaseError`]: every variant says what it means for the lease. Of several names it is that of one name, which it
    /// says, and a loss before any other error; the other names may be extended.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// # let lease = client.mutex("invoices").acquire().await?;
    /// lease.extend(std::time::Duration::from_secs(60)).await?; // before a step that takes long
    /// # Ok(()) }
    /// ```
    pub async fn extend(&self, ttl: Duration) -> Result<(), LeaseError> {
        let span = RequestSpan::begin(tracing::debug_span!(
            target: "leaselock", "extend", lock = %self.record.name,
            fence = self.record.fence.map(Fence::get), outcome = Empty,
        ));
        let extended = match &*self.several {
            [] => self.extend_one(ttl).await,
            leases => extend_each(leases, ttl).await,
        };
        span.end(match &extended {
            Ok(()) => "ok",
            Err(LeaseError::Lost(_)) => "lost",
            Err(LeaseError::Unknown { .. }) => "unknown",
            Err(LeaseError::Store { .. }) => "store",
            Err(LeaseError::Invalid(_)) => "invalid",
        });
        extended
    }

    async fn extend_one(&self, ttl: Duration) -> Result<(), LeaseError> {
        let ttl = Ttl::new(ttl)?;
        self.engine.check_strict(ttl)?;
        self.engine.store.check_limits(0, ttl.as_duration())?;
        self.can_be("extended", |custom| custom.why_no_renewal())?;
        if let Some(lost) = self.record.lost_by_now() {
            return Err(lost.into());
        }
        let t0 = self.engine.clock.now();
        let held_for = self.record.held.for_ttl(ttl);
        let within = self.engine.request_timeout(ttl);
        let answer = match &self.record.custom {
            Some(custom) => {
                let server = LockServer::new(&self.engine.store, within);
                custom.extend(server, ttl).await
            }
            None => self.engine.ask(&Extend { held_for }, within).await,
        };
        match answer {
            Ok(ExtendAnswer::Extended { .. }) => {
                let now = self.engine.clock.now();
                self.record.core().extended(t0, now, ttl);
                let next = self.passes_to.as_ref();
                let renewed = next.map_or(ttl, |next| next.renewal_ttl(ttl));
                self.record.core().set_ttl(renewed);
                self.record.tell_hook();
                self.engine.check_now(self.id);
                if self.record.custom.is_none() && self.record.core().keep_is_due(now) {
                    let resource = &self.record.held.resource;
                    drop(self.engine.ask(&Keep { resource }, within).await);
                }
                self.record
                    .lost_by_now()
                    .map_or(Ok(()), |lost| Err(lost.into()))
            }
            Ok(ExtendAnswer::Gone(reason)) => Err(self.end(reason).into()),
            Err(source) => Err(LeaseError::from_store(&self.record.name, source)),
        }
    }
}

/// Extends each of them. A loss comes before any other error.
async fn extend_each(leases: &[Lease], ttl: Duration) -> Result<(), LeaseError> {
    let extended = join_all(leases.iter().map(|lease| lease.extend_one(ttl))).await;
    let mut errors: Vec<_> = extended.into_iter().filter_map(Result::err).collect();
    errors.sort_by_key(|error| !matches!(error, LeaseError::Lost(_)));
    errors.into_iter().next().map_or(Ok(()), Err)
}

impl<M> Lease<M> {
    /// Sets whether a request may change how the lease is held. Meanwhile a refused renewal is no loss: it may have come
    /// after the change.
    pub(crate) fn set_changing(&mut self, changing: bool) {
        self.announce_change(changing);
        self.parts().1.core().changing = changing;
    }

    /// Tells its owner that the lease is about to change, or is not any more. A waiting task does not get it next.
    pub(crate) fn announce_change(&mut self, changing: bool) {
        let next = self.passes_to.as_ref();
        let goes_on = next.is_some_and(|next| next.set_changing(changing));
        if changing && !goes_on {
            self.end_passing();
        }
    }

    /// Ends the lease without a request: its token is another lease's now, or is being cleaned up.
    pub(crate) fn retire(&self) {
        let (engine, record, id) = self.parts();
        engine.stop_renewal(id);
        record.end(LostReason::Released, engine.clock.now());
    }

    /// Goes on with the token of a lease that was changed into this one: what its acquisition may have left is cleaned
    /// up at the end of this one.
    pub(crate) fn succeed<N>(&mut self, mut before: Lease<N>) {
        if before.expects_late_requests() {
            self.expect_late_requests();
        }
        if before.parts().1.was_queued() {
            self.set_queued();
        }
        if let Some(next) = before.passes_to.take() {
            let (_, record, id) = self.parts();
            next.changed(record, id, self.expects_late_requests());
            self.passes_to = Some(next);
        }
        before.retire();
        before.disown();
    }
}

#[cfg(test)]
mod change_tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use std::time::Duration;

    use crate::base::clock::Clock;
    use crate::base::clock::{Drift, Ttl};
    use crate::engine::services::lease::state::{LeaseMachine, LeaseTerms, NextStep};
    use crate::engine::values::AcquireTerms;

    /// It may have been sent before the change, and have reached the store after it.
    #[test]
    fn a_refused_renewal_is_no_loss_while_the_lease_is_changed() {
        let clock = Clock::manual();
        let (now, ttl) = (clock.now(), Ttl::whole_ms(9_000).unwrap());
        let drift = Drift { ppm: 0 };
        let deadline = drift.deadline(now, ttl);
        let terms = LeaseTerms::of(AcquireTerms::plain(ttl), None, now);
        let mut core = LeaseMachine::granted(now, deadline, now, terms, drift);
        clock.advance(Duration::from_secs(4));
        assert_eq!(core.step(clock.now()), NextStep::Renew);
        core.changing = true;
        assert!(!core.refused(clock.now()));
        assert!(core.lost().is_none() && core.deadline() == deadline);
        core.changing = false;
        clock.advance(Duration::from_secs(3));
        assert_eq!(core.step(clock.now()), NextStep::Renew, "it asks again");
        assert!(core.refused(clock.now()));
    }
}
