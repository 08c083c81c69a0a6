//! Waiting together with other tasks of this client that want the same lock in the same way.

use std::sync::Arc;

use super::arrival::Arrival;
use super::group::{GroupTerms, GroupWaiter};
use super::groups::LocalGroups;
use super::handoff::Handoff;
use crate::base::clock::Moment;
use crate::base::error::AcquireError;
use crate::engine::guard::lease::Lease;
use crate::engine::ways::ask::Ask;
use crate::engine::ways::first_try::StartedWait;
use crate::engine::ways::queue::way::{Queue, QueueEnd};
use crate::engine::ways::turn_budget::LOCAL_TURNS;
use crate::engine::ways::way::Way;

/// Waits by itself while no other task does, and as a member of their group otherwise.
pub(crate) struct Local<'w, 'a> {
    pub(crate) ask: &'w mut Ask<'a>,
    pub(crate) groups: &'w Arc<LocalGroups>,
    pub(crate) terms: GroupTerms,
    pub(crate) start: Moment,
    pub(crate) end: Option<Moment>,
    /// The first try, if it was made with others.
    pub(crate) begun: Option<Box<StartedWait>>,
}

impl Way for Local<'_, '_> {
    type Got = Lease;

    async fn run(self) -> Result<Lease, AcquireError> {
        let Local {
            ask,
            groups,
            terms,
            start,
            end,
            mut begun,
        } = self;
        // After a first try the clock is read again.
        let mut fresh = begun.is_none().then_some(start);
        loop {
            let (engine, lock, now) = (ask.engine, &ask.resource.lock, fresh.take());
            let waiter = || GroupWaiter {
                handoff: Handoff::default(),
                start,
                end,
                max_hold: ask.request.max_hold,
                on_wait: ask.request.on_wait.clone(),
            };
            let member = match groups.arrive(engine, ask.name, lock, terms, waiter) {
                Arrival::GroupMember(member) => {
                    if let Some(begun) = begun.take() {
                        begun.give_up();
                    }
                    member
                }
                Arrival::SoloWaiter(sharing) => {
                    let queue = Queue::new(ask, start, end, begun.take());
                    let queue = queue.for_turns(LOCAL_TURNS, now);
                    let waiting = Box::pin(queue.wait(Some(&sharing.group.called))); // large
                    match waiting.await? {
                        QueueEnd::Granted(lease, share) => return Ok(sharing.granted(lease, share)),
                        QueueEnd::HandedOver(handed) => sharing.joins(ask.name, *handed, waiter()),
                    }
                }
            };
            if let Some(lease) = member.wait().await? {
                return Ok(lease);
            }
            ask.renew_token()?; // the grant was over before this task was polled
        }
    }
}
