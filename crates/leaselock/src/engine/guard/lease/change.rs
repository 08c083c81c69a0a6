//! Changing how a lease is held: its token stays, and another lease, or a cleanup, goes on with it.

use super::Lease;
use crate::base::error::LostReason;

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
        record.end(LostReason::Released);
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
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use std::time::Duration;

    use crate::base::clock::Clock;
    use crate::base::ttl::{Drift, Ttl};
    use crate::engine::services::lease::state::{LeaseMachine, NextStep};

    /// It may have been sent before the change, and have reached the store after it.
    #[test]
    fn a_refused_renewal_is_no_loss_while_the_lease_is_changed() {
        let clock = Clock::manual();
        let (now, ttl) = (clock.now(), Ttl::whole_ms(9_000).unwrap());
        let drift = Drift { ppm: 0 };
        let deadline = drift.deadline(now, ttl);
        let mut core = LeaseMachine::granted(now, deadline, now, ttl, drift, true, None);
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
