//! The groups of a client, by lock.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex};

use leaselock_fence::Name;

use super::arrival::{Arrival, GroupMember, SoloWaiter, join};
use super::group::{GroupTerms, GroupWaiter, LocalGroup, Registry};
use crate::base::hold;
use crate::engine::services::Engine;

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
        for other in local_groups
            .iter()
            .filter(|group| group.terms.priority < terms.priority)
        {
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
            group.terms.priority > priority && {
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

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use super::*;
    use crate::Client;
    use crate::client::options::Options;
    use crate::engine::values::request::Wait;
    use crate::engine::ways::local::handoff::Handoff;
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

        let urgent = GroupTerms {
            priority: 1,
            ..terms
        };
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
