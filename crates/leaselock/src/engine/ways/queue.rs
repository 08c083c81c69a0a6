//! Waiting in the queue: by itself, or together with other tasks of this client that wait in the same way.

use std::sync::Arc;

use super::attempt::Acquisition;
use super::first_try::StartedWait;
use super::local::arrival::{Arrival, GroupMember, SoloWaiter};
use super::local::group::{GroupTerms, GroupWaiter};
use super::local::groups::LocalGroups;
use super::local::handoff::Handoff;
use super::patience::Patience;
use super::queued::{QueueEntry, Queued};
use super::run::{Attempt, Callers, WaitEnd, run};
use super::solo::Solo;
use super::turn_budget::LOCAL_TURNS;
use crate::base::clock::Moment;
use crate::base::error::AcquireError;
use crate::engine::guard::lease::Lease;
use crate::engine::values::request::Wait;

/// How a task with a queue entry of its own stopped waiting.
enum SoloEnd {
    Granted(Lease),
    /// Other tasks have come, and the entry is theirs too.
    Joined(GroupMember),
}

impl Acquisition<'_> {
    /// Waits in the queue until the lock is granted or the time is over.
    pub(super) async fn wait_in_queue(
        &mut self,
        groups: &Arc<LocalGroups>,
        start: Moment,
        end: Option<Moment>,
        wait: Wait,
        mut begun: Option<Box<StartedWait>>,
    ) -> Result<Lease, AcquireError> {
        // After a first try the clock is read again.
        let mut fresh = begun.is_none().then_some(start);
        let terms = GroupTerms::of(self.resource.kind, &self.request, wait);
        let Some(terms) = terms.filter(|_| self.owner.is_none()) else {
            let solo = Box::pin(self.wait_solo(start, end, fresh, None, begun)); // large
            return match solo.await? {
                SoloEnd::Granted(lease) => Ok(lease),
                SoloEnd::Joined(member) => member.wait().await?.ok_or(AcquireError::Closed),
            };
        };
        self.range = LOCAL_TURNS;
        loop {
            let (engine, key) = (self.engine, &self.resource.lock);
            let now = fresh.take();
            let waiter = || self.waiter(start, end);
            let member = match groups.arrive(engine, self.name, key, terms, waiter) {
                Arrival::GroupMember(member) => {
                    if let Some(begun) = begun.take() {
                        begun.give_up();
                    }
                    member
                }
                Arrival::SoloWaiter(solo) => {
                    let (sharing, begun) = (Some(solo), begun.take());
                    let solo = Box::pin(self.wait_solo(start, end, now, sharing, begun)); // large
                    match solo.await? {
                        SoloEnd::Granted(lease) => return Ok(lease),
                        SoloEnd::Joined(member) => member,
                    }
                }
            };
            if let Some(lease) = member.wait().await? {
                return Ok(lease);
            }
            self.renew_token()?; // the grant was over before this task was polled
        }
    }

    /// This task, as a member of a group.
    fn waiter(&self, start: Moment, end: Option<Moment>) -> GroupWaiter {
        GroupWaiter {
            handoff: Handoff::default(),
            start,
            end,
            max_hold: self.request.max_hold,
            on_wait: self.request.on_wait.clone(),
        }
    }

    /// Waits with a queue entry of its own. `now`: the clock, if it was read just before.
    async fn wait_solo(
        &mut self,
        start: Moment,
        end: Option<Moment>,
        now: Option<Moment>,
        sharing: Option<SoloWaiter>,
        begun: Option<Box<StartedWait>>,
    ) -> Result<SoloEnd, AcquireError> {
        let clock = &self.engine.clock;
        let now = now.unwrap_or_else(|| clock.now());
        let mut solo = Solo::in_queue(self, start, end, sharing);
        let (mut fresh, mut patience) = (Some(now), Patience::default());
        let entry = match begun.map(|begun| *begun) {
            None => QueueEntry::new(self, self.guard_from(now)),
            Some(begun) => {
                let ambiguous = begun.is_ambiguous();
                let mut entry = QueueEntry::new(self, begun.guard);
                entry.ambiguous = ambiguous;
                patience = begun.patience;
                if let Some(pause) = begun.pause {
                    fresh = None;
                    let until = clock.now().plus(pause).min(solo.give_up_at);
                    clock.sleep_until(until).await;
                }
                entry
            }
        };
        let acquisition = &*self;
        let mut queued = Queued { acquisition, entry };
        let mut deadlock = None;
        let ended = {
            let waiting = run(clock, fresh, &mut patience, &solo, &mut queued);
            match acquisition.detector() {
                None => waiting.await,
                Some(mut detector) => tokio::select! {
                    biased;
                    ended = waiting => ended,
                    found = Box::pin(detector.run(&solo.polled)) => {
                        deadlock = Some(found);
                        WaitEnd::Over
                    }
                },
            }
        };
        let ended = match ended {
            WaitEnd::Over if deadlock.is_some() => {
                queued.received().map_or(ended, WaitEnd::Granted)
            }
            ended => ended,
        };
        let mut entry = queued.entry;
        let source = match ended {
            WaitEnd::Granted((lease, share)) => {
                let lease = entry.granted(lease);
                return Ok(SoloEnd::Granted(match solo.sharing.take() {
                    Some(sharing) => sharing.granted(lease, share),
                    None => lease, // it is passed on to no other task
                }));
            }
            WaitEnd::HandedOver => {
                if let Some(sharing) = solo.sharing.take() {
                    entry.reading = None; // the task of the group uses another connection
                    let waiter = self.waiter(start, end);
                    let member = sharing.joins(self.name, (entry, patience), waiter);
                    return Ok(SoloEnd::Joined(member));
                }
                None
            }
            WaitEnd::Over => None,
            WaitEnd::Failed(source) => Some(source),
            WaitEnd::NoTime => {
                clock.sleep_until(solo.give_up_at).await; // not sooner than was asked for
                patience.error.clone()
            }
        };
        let may_exist = entry.may_exist();
        match source {
            Some(source) => Err(self.failed(entry.guard, source, may_exist)),
            None => {
                let longest = self.engine.request_timeout(self.request.ttl);
                let within = solo.time_for_request(&patience).unwrap_or(longest);
                let left = Box::pin(self.leave(entry, start, patience, within)).await;
                let left = left.map_err(|busy| match deadlock {
                    Some(deadlock) => AcquireError::Deadlock {
                        name: self.name.clone(),
                        deadlock,
                    },
                    None => busy,
                });
                left.map(SoloEnd::Granted)
            }
        }
    }
}
