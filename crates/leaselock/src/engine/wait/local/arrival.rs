//! How a task comes to wait: by itself, or in a group with others of its client.

use std::future::poll_fn;
use std::sync::Arc;

use super::budget::Share;
use super::group::{Current, LocalGroup, State, Waiter};
use super::group_task;
use super::handoff::Handoff;
use crate::base::error::AcquireError;
use crate::engine::core::Engine;
use crate::engine::lease::Lease;
use crate::engine::wait::standing::Standing;

/// How to wait.
pub(crate) enum Arrival {
    SoloWaiter(SoloWaiter),
    GroupMember(GroupMember),
}

/// Gets in line here. The driver is woken only when it would come round too late by itself.
pub(crate) fn join(
    party: &Arc<LocalGroup>,
    engine: &Arc<Engine>,
    name: &crate::base::name::Name,
    state: &mut State,
    waiter: Waiter,
    first: bool,
) {
    let in_time = match (waiter.end, state.round_at) {
        (Some(end), Some(round)) => round <= end,
        (None, round) => round.is_some(),
        (Some(_), None) => false,
    };
    state.used = true;
    if first {
        state.turns.join_first(waiter);
    } else {
        state.turns.join(waiter);
    }
    if !state.driven {
        state.driven = true;
        group_task::start(engine, party, name);
    } else if !in_time || group_task::is_wanted(state, engine.clock.now()) {
        party.changed.notify_one();
    }
}

/// Somebody who stands by itself. Dropping it ends that.
pub(crate) struct SoloWaiter {
    engine: Arc<Engine>,
    party: Arc<LocalGroup>,
}

impl SoloWaiter {
    pub(crate) fn new(engine: &Arc<Engine>, party: Arc<LocalGroup>) -> Self {
        SoloWaiter {
            engine: Arc::clone(engine),
            party,
        }
    }

    /// Ends when others have come, with whom the place is to be shared.
    pub(crate) async fn called(&self) {
        self.party.called.notified().await;
    }

    /// The lease passes on to those who have come meanwhile or come while it is held, if its grant reserved anything.
    pub(crate) fn granted(self, lease: Lease, share: Share) -> Lease {
        if share.range <= 1 || lease.expects_late_requests() {
            return lease;
        }
        let (_, kept, _) = lease.parts();
        let now = self.engine.clock.now();
        let mut state = self.party.state();
        state.used = true;
        state.turns.begin(kept.fence, share, now);
        state.current = Some(Current {
            kept: Arc::clone(kept),
            whose: None,
        });
        drop(state);
        lease.shared(self.party.clone())
    }

    /// Leaves its place to the party and takes the first seat.
    pub(crate) fn joins(
        self,
        name: &crate::base::name::Name,
        standing: Standing,
        waiter: Waiter,
    ) -> GroupMember {
        let seat = waiter.seat.clone();
        let mut state = self.party.state();
        // Too late, and the party has a place of its own by now: this one is left in the background.
        let superfluous = if state.stands {
            Some(standing)
        } else {
            state.left.replace(standing)
        };
        join(&self.party, &self.engine, name, &mut state, waiter, true);
        drop(state);
        drop(superfluous);
        GroupMember::new(Arc::clone(&self.party), seat)
    }
}

impl Drop for SoloWaiter {
    fn drop(&mut self) {
        let driven = {
            let mut state = self.party.state();
            state.alone = false;
            state.driven
        };
        if driven {
            self.party.changed.notify_one();
        } else {
            self.party.tidy();
        }
    }
}

/// A task in its seat. Dropping it leaves the line, or passes on what was put there.
pub(crate) struct GroupMember {
    party: Arc<LocalGroup>,
    seat: Handoff,
    waits: bool,
}

impl GroupMember {
    pub(crate) fn new(party: Arc<LocalGroup>, seat: Handoff) -> Self {
        GroupMember {
            party,
            seat,
            waits: true,
        }
    }

    /// `Ok(None)`: the turn came and was over before the task came round.
    pub(crate) async fn wait(mut self) -> Result<Option<Lease>, AcquireError> {
        let offer = poll_fn(|cx| self.seat.poll(cx)).await;
        self.waits = false;
        let lease = offer?;
        lease.take_up();
        Ok(Some(lease).filter(Lease::is_held))
    }
}

impl Drop for GroupMember {
    fn drop(&mut self) {
        if !self.waits {
            return;
        }
        let nobody = {
            let mut state = self.party.state();
            state.turns.leave(|waiter| waiter.seat.is(&self.seat));
            state.turns.is_empty() && state.current.is_none()
        };
        drop(self.seat.take_back());
        if nobody {
            self.party.changed.notify_one();
            self.party.tidy();
        }
    }
}
