//! The groups of a client, and how a task comes to wait: by itself, or in a group with other tasks that want the same lock
//! in the same way.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};

use leaselock_fence::Name;

use super::group::{Current, GroupState, GroupTerms, GroupWaiter, Handoff, LocalGroup, Registry};
use super::group_task;
use crate::base::error::AcquireError;
use crate::base::hold;
use crate::engine::guard::lease::Lease;
use crate::engine::services::Engine;
use crate::engine::services::totals::of_client::{reported, shown};
use crate::engine::values::LogEvent;
use crate::engine::ways::ask::Ask;
use crate::engine::ways::first_try::StartedWait;
use crate::engine::ways::queue::entry::QueueEntry;
use crate::engine::ways::queue::way::QueueEnd;
use crate::engine::ways::run::Progress;
use crate::engine::ways::turn_budget::{LOCAL_TURNS, Share};

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
        entry: (QueueEntry, Progress),
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
        let offer = poll_fn(|cx| self.handoff.poll_taken(cx)).await;
        self.waits = false;
        let lease = offer?;
        Ok(lease.take_up().then_some(lease))
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
            (state.is_unused(), self.handoff.take_back())
        };
        drop(taken_back); // a lease that is dropped passes on
        if is_last {
            self.group.changed.notify_one();
            self.group.tidy();
        }
    }
}

/// All groups of a client, by the key of the lock.
#[derive(Debug, Default)]
pub(crate) struct LocalGroups(Mutex<GroupTable>);

#[derive(Debug, Default)]
struct GroupTable {
    by_key: HashMap<Arc<str>, Vec<Arc<LocalGroup>>>,
    /// The latest group that ended as it had begun: most have one task, which comes again for the same lock.
    spare: Option<Arc<LocalGroup>>,
}

impl LocalGroups {
    /// True if a task of this client waits for the lock, or passes it on.
    pub(crate) fn has(&self, key: &str) -> bool {
        let by_key = &hold(&self.0).by_key;
        !by_key.is_empty() && by_key.contains_key(key)
    }

    /// How many groups have no member any more, while their tasks may have queue entries. The cleanup of each is to come.
    pub(crate) fn leaving(&self) -> usize {
        let table = hold(&self.0);
        let leaving = |group: &&Arc<LocalGroup>| {
            let state = group.state();
            state.has_task && state.is_unused()
        };
        table.by_key.values().flatten().filter(leaving).count()
    }

    /// The task waits by itself if its group is empty, and becomes a member otherwise.
    pub(crate) fn arrive(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        name: &Name,
        key: &Arc<str>,
        terms: GroupTerms,
        waiter: impl FnOnce() -> GroupWaiter,
    ) -> Arrival {
        let mut table = hold(&self.0);
        let GroupTable { by_key, spare } = &mut *table;
        let local_groups = by_key.entry(Arc::clone(key)).or_default();
        // A more urgent task does not wait while others pass the lease on.
        let priority = terms.asked.priority;
        let is_less = |group: &&Arc<LocalGroup>| group.terms.asked.priority < priority;
        for other in local_groups.iter().filter(is_less) {
            let mut state = other.state();
            state.turns.end();
            state.used = true;
            other.changed.notify_one();
        }
        let known = local_groups.iter().find(|group| group.terms == terms);
        let Some(group) = known.map(Arc::clone) else {
            let fit = spare
                .take()
                .filter(|spare| spare.terms == terms && spare.key == *key);
            let group = fit.unwrap_or_else(|| {
                let list: Arc<dyn Registry> = self.clone();
                Arc::new(LocalGroup::new(Arc::downgrade(&list), key, terms))
            });
            group.state().has_solo = true;
            local_groups.push(Arc::clone(&group));
            return Arrival::SoloWaiter(SoloWaiter::new(engine, group));
        };
        let mut state = group.state();
        if !state.has_solo && !state.has_task && state.current.is_none() {
            state.has_solo = true;
            drop(state);
            return Arrival::SoloWaiter(SoloWaiter::new(engine, group));
        }
        let waiter = waiter();
        let handoff = waiter.handoff.clone();
        join(&group, engine, name, &mut state, waiter, false);
        drop(state);
        Arrival::GroupMember(GroupMember::new(group, handoff))
    }
}

impl Registry for LocalGroups {
    fn is_urgent(&self, key: &str, priority: i32) -> bool {
        let table = hold(&self.0);
        let mut local_groups = table.by_key.get(key).into_iter().flatten();
        local_groups.any(|group| {
            group.terms.asked.priority > priority && {
                let state = group.state();
                state.has_solo && state.current.is_none() || !state.turns.waiters.is_empty()
            }
        })
    }

    fn tidy(&self, group: &Arc<LocalGroup>) {
        let mut table = hold(&self.0);
        let state = group.state();
        if !state.is_idle() {
            return;
        }
        if let Entry::Occupied(mut local_groups) = table.by_key.entry(Arc::clone(&group.key)) {
            local_groups
                .get_mut()
                .retain(|other| !Arc::ptr_eq(other, group));
            if local_groups.get().is_empty() {
                local_groups.remove();
            }
        }
        if !state.used {
            table.spare = Some(Arc::clone(group));
        }
    }
}

impl Ask<'_> {
    /// Waits by itself while no other task does, and as a member of their group otherwise.
    ///
    /// `begun`: the first try, if it was made with others.
    pub(crate) async fn wait_with_others(
        &mut self,
        groups: &Arc<LocalGroups>,
        terms: GroupTerms,
        mut begun: Option<Box<StartedWait>>,
    ) -> Result<Lease, AcquireError> {
        // After a first try the clock is read again.
        let shown = shown();
        let mut fresh = begun.is_none().then_some(self.start);
        loop {
            let (engine, lock, now) = (self.engine, self.lock(), fresh.take());
            let waiter = || GroupWaiter {
                handoff: Handoff::default(),
                start: self.start,
                end: self.end,
                max_hold: self.request.max_hold,
                on_wait: reported(self.request.on_wait.clone(), shown.as_ref()),
            };
            let member = match groups.arrive(engine, self.name, lock, terms, waiter) {
                Arrival::GroupMember(member) => {
                    let text = "behind other tasks of this client";
                    let event = || LogEvent::new("waiting", text).of(self.name, None);
                    engine.log.tell(event);
                    if let Some(begun) = begun.take() {
                        begun.give_up();
                    }
                    member
                }
                Arrival::SoloWaiter(sharing) => {
                    let called = Some(&sharing.group.called);
                    let waiting = self.wait_in_queue(begun.take(), now, LOCAL_TURNS, called);
                    let waiting = Box::pin(waiting); // large
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

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use super::*;
    use crate::Client;
    use crate::client::options::Options;
    use crate::engine::values::request::Wait;
    use crate::engine::ways::local::group::Handoff;
    use crate::mutex::MUTEX;

    fn arrive(client: &Client, name: &Name, terms: GroupTerms) -> Arrival {
        let engine = client.engine();
        let waiter = || GroupWaiter {
            handoff: Handoff::default(),
            start: engine.clock.now(),
            end: None,
            max_hold: None,
            on_wait: None,
        };
        client
            .state
            .groups
            .arrive(engine, name, &Arc::from(name), terms, waiter)
    }

    fn spare(client: &Client) -> Option<Arc<LocalGroup>> {
        hold(&client.state.groups.0).spare.clone()
    }

    /// What the first has left behind, such as a call to share its entry, would concern the next.
    #[tokio::test]
    async fn a_group_is_used_again_unless_several_tasks_used_it() {
        let client = Client::open("mem:").unwrap();
        let (name, options) = (Name::new("job").unwrap(), Options::default());
        let (_, request) = client.state.request(&MUTEX, &name, &options).unwrap();
        let terms = GroupTerms::of(&MUTEX, &request, Wait::Forever).unwrap();
        drop(arrive(&client, &name, terms));
        let first = spare(&client).unwrap();
        drop(arrive(&client, &name, terms));
        assert!(Arc::ptr_eq(&first, &spare(&client).unwrap()));

        let mut urgent = terms;
        urgent.asked.priority = 1;
        let (alone, other) = (
            arrive(&client, &name, terms),
            arrive(&client, &name, urgent),
        );
        drop(alone);
        assert!(spare(&client).is_none(), "its turns were ended");
        drop(other);

        let (alone, member) = (arrive(&client, &name, terms), arrive(&client, &name, terms));
        assert!(matches!(member, Arrival::GroupMember(_)));
        drop((member, alone));
        let gone = async {
            while client.state.groups.has("job") {
                tokio::task::yield_now().await;
            }
        };
        let gone = tokio::time::timeout(std::time::Duration::from_secs(20), gone).await;
        assert!(gone.is_ok(), "its task ends");
        assert!(spare(&client).is_none_or(|spare| spare.terms != terms));
    }
}
