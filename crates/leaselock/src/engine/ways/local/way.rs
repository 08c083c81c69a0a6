//! Waiting together with other tasks of this client that want the same lock in the same way.

use std::sync::Arc;

use super::arrival::Arrival;
use super::group::{GroupTerms, GroupWaiter};
use super::groups::LocalGroups;
use super::handoff::Handoff;
use crate::base::Moment;
use crate::base::error::AcquireError;
use crate::engine::guard::lease::Lease;
use crate::engine::ways::ask::Ask;
use crate::engine::ways::first_try::StartedWait;
use crate::engine::ways::queue::way::{Queue, QueueEnd};
use crate::engine::ways::turn_budget::LOCAL_TURNS;

impl Ask<'_> {
    /// Waits by itself while no other task does, and as a member of their group otherwise.
    ///
    /// `begun`: the first try, if it was made with others.
    pub(crate) async fn wait_with_others(
        &mut self,
        groups: &Arc<LocalGroups>,
        terms: GroupTerms,
        start: Moment,
        end: Option<Moment>,
        mut begun: Option<Box<StartedWait>>,
    ) -> Result<Lease, AcquireError> {
        // After a first try the clock is read again.
        let mut fresh = begun.is_none().then_some(start);
        loop {
            let (engine, lock, now) = (self.engine, &self.resource.lock, fresh.take());
            let waiter = || GroupWaiter {
                handoff: Handoff::default(),
                start,
                end,
                max_hold: self.request.max_hold,
                on_wait: self.request.on_wait.clone(),
            };
            let member = match groups.arrive(engine, self.name, lock, terms, waiter) {
                Arrival::GroupMember(member) => {
                    if let Some(begun) = begun.take() {
                        begun.give_up();
                    }
                    member
                }
                Arrival::SoloWaiter(sharing) => {
                    let queue = Queue::new(self, start, end, begun.take());
                    let queue = queue.for_turns(LOCAL_TURNS, now);
                    let waiting = Box::pin(queue.wait(Some(&sharing.group.called))); // large
                    match waiting.await? {
                        QueueEnd::Granted(lease, share) => return Ok(sharing.granted(lease, share)),
                        QueueEnd::HandedOver(handed) => sharing.joins(self.name, *handed, waiter()),
                    }
                }
            };
            if let Some(lease) = member.wait().await? {
                return Ok(lease);
            }
            self.renew_token()?; // the grant was over before this task was polled
        }
    }
}
