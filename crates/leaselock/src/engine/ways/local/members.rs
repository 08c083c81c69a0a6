//! What the task of a group does about its members: it tells them how the wait goes on, ends their wait, or skips them.

use super::group::GroupWaiter;
use super::group_task::{GRANT_UNTAKEN, GroupTask, is_over};
use crate::base::StoreError;
use crate::base::error::AcquireError;
use crate::engine::values::{Seen, Waiting};
use crate::engine::ways::patience::{NEVER_ANSWERED, Patience};

impl GroupTask {
    /// Takes out the member whose time is over and for whom the entry was kept to the end.
    pub(super) fn take_last_member(&self, patience: &Patience) -> Option<GroupWaiter> {
        let now = self.now();
        let mut state = self.group.state();
        if is_over(&state, now, patience.has_met_the_store()) {
            state.turns.leave(|_| true)
        } else {
            None
        }
    }

    /// Ends the wait of members whose time is over, as long as others stay for whom the entry is kept. `silence`: the
    /// error of the requests, if the store was never there.
    pub(super) fn expire_members(&self, silence: Option<&StoreError>) {
        loop {
            let (member, seen) = {
                let now = self.now();
                let mut state = self.group.state();
                let answered = silence.is_none() || state.current.is_some();
                if !is_over(&state, now, answered)
                    || (state.turns.waiters.len() == 1 && state.in_queue)
                {
                    return;
                }
                let ended = |member: &GroupWaiter| {
                    member.end.is_some_and(|end| end <= now)
                        || !answered && member.start.plus(NEVER_ANSWERED) <= now
                };
                let Some(member) = state.turns.leave(ended) else {
                    return;
                };
                let seen = match (&state.current, &state.seen) {
                    (Some(_), _) => Seen::held_by(self.engine.ids.client.as_str()),
                    (None, Some((seen, _))) => Some(seen.clone()),
                    (None, None) => None,
                };
                (member, seen)
            };
            let waited = self.now().saturating_since(member.start);
            let name = self.name.clone();
            member.handoff.offer(Err(match silence.cloned() {
                Some(source) => AcquireError::Store { name, source }, // what may be there is kept for the others
                None => self.engine.still_busy(name, waited, seen.as_ref()),
            }));
        }
    }

    pub(super) fn fail_all(&self, error: &AcquireError) {
        let members = std::mem::take(&mut self.group.state().turns.waiters);
        for member in members {
            member.handoff.offer(Err(error.clone()));
        }
    }

    /// A member that is not polled for its grant goes to the end of the queue.
    pub(super) fn skip_late_member(&self) {
        let now = self.now();
        let taken_back = {
            let mut state = self.group.state();
            let late = state
                .current
                .as_ref()
                .and_then(|current| current.member.clone());
            let late = late.filter(|(_, since)| now >= since.plus(GRANT_UNTAKEN));
            let offer = late
                .filter(|_| !state.turns.waiters.is_empty())
                .and_then(|(member, _)| {
                    let offer = member.handoff.take_back()?;
                    Some((member, offer))
                });
            offer.map(|(member, offer)| {
                state.turns.join(member);
                offer
            })
        };
        drop(taken_back); // a lease that is dropped passes on
    }

    /// Calls back the members that asked for it, each with how many members are before it.
    pub(super) fn call_back(&self, waiting: impl Fn(u64) -> Waiting) {
        let members = Vec::from_iter(self.group.state().turns.waiters.iter().cloned());
        for (member, behind) in members.iter().zip(0..) {
            if let Some(on_wait) = &member.on_wait {
                member.handoff.call(|| on_wait(&waiting(behind)));
            }
        }
    }
}
