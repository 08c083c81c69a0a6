//! How a task comes to wait: by itself, or in a group with other tasks of its client.

use std::sync::Arc;

use leaselock_fence::Name;

use super::group::{Current, GroupState, GroupWaiter, LocalGroup};
use super::group_task;
use super::handoff::Handoff;
use crate::base::error::AcquireError;
use crate::engine::guard::lease::Lease;
use crate::engine::services::Engine;
use crate::engine::ways::patience::Patience;
use crate::engine::ways::queue::entry::QueueEntry;
use crate::engine::ways::turn_budget::Share;

/// How to wait.
pub(crate) enum Arrival {
    SoloWaiter(SoloWaiter),
    GroupMember(GroupMember),
}

/// Joins the group. The group's task is woken only when it would review the wait too late by itself.
pub(crate) fn join(
    group: &Arc<LocalGroup>,
    engine: &Arc<Engine>,
    name: &Name,
    state: &mut GroupState,
    waiter: GroupWaiter,
    first: bool,
) {
    let in_time = match (waiter.end, state.review_at) {
        (Some(end), Some(review)) => review <= end,
        (None, review) => review.is_some(),
        (Some(_), None) => false,
    };
    state.used = true;
    if first {
        state.turns.join_first(waiter);
    } else {
        state.turns.join(waiter);
    }
    if !state.has_task {
        state.has_task = true;
        group_task::start(engine, group, name);
    } else if !in_time || group_task::needs_entry(state, engine.clock.now()) {
        group.changed.notify_one();
    }
}

/// A task that waits by itself. Dropping it ends that.
pub(crate) struct SoloWaiter {
    engine: Arc<Engine>,
    pub(super) group: Arc<LocalGroup>,
}

impl SoloWaiter {
    pub(crate) fn new(engine: &Arc<Engine>, group: Arc<LocalGroup>) -> Self {
        SoloWaiter {
            engine: Arc::clone(engine),
            group,
        }
    }

    /// The lease passes on to tasks that have come meanwhile or come while it is held, if its grant reserved fences.
    pub(crate) fn granted(self, lease: Lease, share: Share) -> Lease {
        if share.range <= 1 || lease.expects_late_requests() {
            return lease;
        }
        let (_, kept, _) = lease.parts();
        let now = self.engine.clock.now();
        let mut state = self.group.state();
        state.used = true;
        state.turns.begin(kept.fence, share, now);
        state.current = Some(Current {
            kept: Arc::clone(kept),
            member: None,
        });
        drop(state);
        lease.shared(self.group.clone())
    }

    /// Hands its entry over to the group and becomes the first member.
    pub(crate) fn joins(
        self,
        name: &Name,
        entry: (QueueEntry, Patience),
        waiter: GroupWaiter,
    ) -> GroupMember {
        let handoff = waiter.handoff.clone();
        let mut state = self.group.state();
        // Too late, and the group has an entry of its own by now: the cleanup leaves this one in the background.
        let superfluous = if state.in_queue {
            Some(entry)
        } else {
            state.handed_over.replace(entry)
        };
        join(&self.group, &self.engine, name, &mut state, waiter, true);
        drop(state);
        drop(superfluous);
        GroupMember::new(Arc::clone(&self.group), handoff)
    }
}

impl Drop for SoloWaiter {
    fn drop(&mut self) {
        let has_task = {
            let mut state = self.group.state();
            state.has_solo = false;
            state.has_task
        };
        if has_task {
            self.group.changed.notify_one();
        } else {
            self.group.tidy();
        }
    }
}

/// A member that waits. Dropping it leaves the group, or passes on the lease that it was given.
pub(crate) struct GroupMember {
    group: Arc<LocalGroup>,
    handoff: Handoff,
    waits: bool,
}

impl GroupMember {
    pub(crate) fn new(group: Arc<LocalGroup>, handoff: Handoff) -> Self {
        GroupMember {
            group,
            handoff,
            waits: true,
        }
    }

    /// `Ok(None)`: the lease was passed to the task and was over before the task was polled.
    pub(crate) async fn wait(mut self) -> Result<Option<Lease>, AcquireError> {
        let offer = self.handoff.taken().await;
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
        // In one step: the group's task has a member join again whose lease it takes back.
        let (is_last, taken_back) = {
            let mut state = self.group.state();
            state.turns.leave(|waiter| waiter.handoff.is(&self.handoff));
            let is_last = state.turns.waiters.is_empty() && state.current.is_none();
            (is_last, self.handoff.take_back())
        };
        drop(taken_back); // a lease that is dropped passes on
        if is_last {
            self.group.changed.notify_one();
            self.group.tidy();
        }
    }
}
