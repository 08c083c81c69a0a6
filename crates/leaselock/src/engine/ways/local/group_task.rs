//! Waits in the queue for all tasks of a group, on the client's own thread.

use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::Name;

use super::group::{GroupState, GroupWaiter, LocalGroup};
use crate::base::error::AcquireError;
use crate::base::{Moment, StoreError};
use crate::engine::services::Engine;
use crate::engine::values::{AcquireRequest, Resource, Seen, Waiting};
use crate::engine::ways::ask::Ask;
use crate::engine::ways::queue::entry::QueueEntry;
use crate::engine::ways::queue::poller::Poller;
use crate::engine::ways::queue::way::Queued;
use crate::engine::ways::run::{Callers, NEVER_ANSWERED, Progress, Review, WaitEnd, Wake, run};
use crate::engine::ways::turn_budget::{LOCAL_TURNS, Wanted};

/// A task that waits by itself gives its entry up as soon as it is polled. If it is not polled in this time, there are
/// two entries.
const HAND_OVER_WITHIN: Duration = Duration::from_millis(50);
/// A member that was not polled for so long after its grant is skipped, so that it delays no other.
pub(super) const GRANT_UNTAKEN: Duration = Duration::from_secs(1);

/// Runs until the group is empty.
pub(crate) fn start(engine: &Arc<Engine>, group: &Arc<LocalGroup>, name: &Name) {
    let Ok(background) = engine.background() else {
        return; // the acquisition has started it
    };
    let task = GroupTask {
        engine: Arc::clone(engine),
        group: Arc::clone(group),
        name: name.clone(),
        request: AcquireRequest {
            terms: group.terms.asked,
            max_hold: None,
            why: None,
            on_wait: None,
            copies: None,
            custom: None,
        },
    };
    drop(background.handle.spawn(task.run()));
}

/// True if the group needs a queue entry, and its task has not begun to make one.
pub(crate) fn needs_entry(state: &GroupState, now: Moment) -> bool {
    !state.in_queue && state.turns.entry_wanted(now) == Wanted::Now
}

/// True if the time of a member is over.
pub(super) fn is_over(state: &GroupState, now: Moment, answered: bool) -> bool {
    let end = state.next_end(answered, NEVER_ANSWERED);
    end.is_some_and(|end| end <= now)
}

/// Takes out a member whose time is over.
fn take_overdue(state: &mut GroupState, now: Moment, answered: bool) -> Option<GroupWaiter> {
    state.turns.leave(|member| {
        let end = member.gives_up_at(answered, NEVER_ANSWERED);
        end.is_some_and(|end| end <= now)
    })
}

pub(super) struct GroupTask {
    pub(super) engine: Arc<Engine>,
    pub(super) group: Arc<LocalGroup>,
    pub(super) name: Name,
    request: AcquireRequest,
}

impl GroupTask {
    async fn run(self) {
        while self.wait_until_needed().await {
            let handed = self.group.state().handed_over.take();
            let lock = Arc::clone(&self.group.key);
            let resource = Resource::at(self.group.terms.kind, lock, self.engine.gate());
            let request = self.request.clone();
            let (engine, name, now) = (&self.engine, &self.name, self.now());
            match Ask::new(engine, name, resource, request, None, now) {
                Ok(ask) => self.wait_in_queue(ask, handed).await,
                Err(error) => self.fail_all(&error),
            }
            self.group.state().in_queue = false;
        }
        self.group.tidy();
    }

    pub(super) fn now(&self) -> Moment {
        self.engine.clock.now()
    }

    /// True: an entry is needed. False: the group is empty.
    async fn wait_until_needed(&self) -> bool {
        let call_until = self.now().plus(HAND_OVER_WITHIN);
        loop {
            let changed = self.group.changed.notified();
            let again_at = {
                let now = self.now();
                let mut state = self.group.state();
                if state.has_solo && now < call_until {
                    self.group.called.notify_one();
                    call_until
                } else if state.turns.waiters.is_empty() {
                    if let Some(handed) = state.handed_over.take() {
                        drop(state);
                        drop(handed); // its cleanup leaves the queue in the background
                        continue;
                    }
                    state.has_task = false;
                    state.review_at = None;
                    return false;
                } else if state.handed_over.is_some() {
                    state.in_queue = true;
                    return true;
                } else {
                    match state.turns.entry_wanted(now) {
                        Wanted::Now => {
                            state.in_queue = true;
                            return true;
                        }
                        Wanted::At(at) => at,
                        Wanted::Never => now.plus(GRANT_UNTAKEN),
                    }
                }
            };
            let until = self.note_review(again_at, true);
            tokio::select! {
                () = changed => {}
                () = self.engine.clock.sleep_until(until) => {}
            }
            self.expire_members(None);
            self.skip_late_member();
        }
    }

    /// Waits in the queue with one token, until it is granted or no member needs it any more.
    async fn wait_in_queue(&self, mut ask: Ask<'_>, handed: Option<(QueueEntry, Progress)>) {
        let (entry, mut progress) = handed.unwrap_or_else(|| {
            let progress = Progress::after(self.latest_answer());
            (QueueEntry::new(&ask, ask.guard_from(self.now())), progress)
        });
        ask.held.token = entry.registration.token().clone();
        let poller = Poller::new(&ask, Some(&ask.background.store), LOCAL_TURNS);
        let mut queued = Queued { poller, entry };
        let ended = run(&self.engine.clock, None, &mut progress, self, &mut queued).await;
        match ended {
            WaitEnd::Granted((lease, share)) => {
                let lease = queued.entry.granted(lease);
                drop(self.group.granted(&self.engine, lease, share));
            }
            WaitEnd::Failed(source) => self.fail_all(&queued.failed(source)),
            WaitEnd::Over | WaitEnd::HandedOver | WaitEnd::NoTime => {
                let within = self.request_time(&progress);
                let Some(member) = self.take_last_member(&progress) else {
                    return; // no task is to be told: the cleanup of the entry leaves the queue
                };
                if let Err(mut error) = queued.leave(progress, within).await {
                    if let AcquireError::TimedOut { waited, .. } = &mut error {
                        *waited = self.now().saturating_since(member.start);
                    }
                    member.handoff.offer(Err(error));
                }
            }
        }
    }

    /// The latest answer to an earlier entry: a store that has answered once is not given up like one that never did.
    fn latest_answer(&self) -> Option<Seen> {
        let state = self.group.state();
        state.seen.as_ref().map(|(seen, _)| seen.clone())
    }

    /// Whether the entry stays in the queue: a member still waits, or a member holds the lease and the next poll is not
    /// due yet, because the tasks that it passes between come back.
    ///
    /// Members whose time is over go first, except for the last: it leaves the queue, and only then is told "busy".
    fn needs_the_entry(&self, poll_at: Moment, progress: &Progress) -> bool {
        self.expire_members(progress.never_answered());
        self.skip_late_member();
        let now = self.now();
        let state = self.group.state();
        if state.turns.waiters.is_empty() {
            return state.current.is_some() && now < poll_at;
        }
        let only = state.turns.waiters.len() == 1;
        !(only && is_over(&state, now, progress.has_met_the_store()))
    }

    /// How long a request may take, by the member that waits longest.
    fn request_time(&self, progress: &Progress) -> Duration {
        let longest = self.engine.request_timeout(self.request.terms.ttl);
        let state = self.group.state();
        let give_up_at = state.latest_end(NEVER_ANSWERED);
        let forever = state
            .turns
            .waiters
            .iter()
            .any(|member| member.end.is_none());
        let end = give_up_at.filter(|_| !forever);
        progress.time_for_request(longest, end, give_up_at, || self.now())
    }

    /// Notes when this task reviews the wait, for tasks that join.
    fn note_review(&self, at: Moment, answered: bool) -> Moment {
        let now = self.now();
        let mut state = self.group.state();
        let end = state.next_end(answered, NEVER_ANSWERED);
        let check = state.current.as_ref().map(|_| now.plus(GRANT_UNTAKEN));
        let until = [end, check].into_iter().flatten().fold(at, Moment::min);
        state.review_at = Some(until);
        until
    }
}

impl Callers for GroupTask {
    fn tell(&self, seen: &Seen, position: u64) {
        self.group.state().seen = Some((seen.clone(), position));
        self.call_back(|behind| Waiting::at(&self.name, seen, position + behind));
    }

    fn tell_error(&self, last: Option<(&Seen, u64)>, error: &StoreError) {
        self.call_back(|behind| {
            let last = last.map(|(seen, position)| (seen, position + behind));
            Waiting::failed(&self.name, last, error)
        });
    }

    fn time_for_request(&self, progress: &Progress) -> Option<Duration> {
        Some(self.request_time(progress))
    }

    fn review_at(&self, poll_at: Moment, progress: &Progress) -> Moment {
        self.note_review(poll_at, progress.has_met_the_store())
    }

    async fn changed(&self) {
        self.group.changed.notified().await;
    }

    fn review(&self, wake: Wake, poll_at: Moment, progress: &Progress) -> Review {
        let is_due = wake == Wake::Poll || wake == Wake::Timer && self.now() >= poll_at;
        match self.needs_the_entry(poll_at, progress) {
            false => Review::Over,
            true if is_due => Review::Ask,
            true => Review::Pause,
        }
    }
}

impl GroupTask {
    /// Takes out the member whose time is over and for whom the entry was kept to the end.
    pub(super) fn take_last_member(&self, progress: &Progress) -> Option<GroupWaiter> {
        let now = self.now();
        take_overdue(&mut self.group.state(), now, progress.has_met_the_store())
    }

    /// Ends the wait of members whose time is over, as long as others stay for whom the entry is kept. `silence`: the
    /// error of the requests, if the store was never there.
    pub(super) fn expire_members(&self, silence: Option<&StoreError>) {
        loop {
            let (member, seen) = {
                let now = self.now();
                let mut state = self.group.state();
                let answered = silence.is_none() || state.current.is_some();
                if state.turns.waiters.len() == 1 && state.in_queue {
                    return;
                }
                let Some(member) = take_overdue(&mut state, now, answered) else {
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

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use std::sync::Weak;

    use super::*;
    use crate::client::Client;
    use crate::client::options::Options;
    use crate::engine::values::Wait;
    use crate::engine::ways::local::group::{GroupTerms, Handoff};
    use crate::engine::ways::local::groups::LocalGroups;
    use crate::mutex::MUTEX;

    /// The task that waited by itself comes late, and in front.
    #[tokio::test]
    async fn the_last_member_is_the_one_whose_time_is_over_and_none_that_has_come_meanwhile() {
        let client = Client::open("mem:").unwrap();
        let (name, engine) = (Name::new("job").unwrap(), client.engine());
        let (_, request) = client
            .state
            .request(&MUTEX, &name, &Options::default())
            .unwrap();
        let terms = GroupTerms::of(&MUTEX, &request, Wait::Forever).unwrap();
        let unlisted = Weak::<LocalGroups>::new();
        let task = GroupTask {
            engine: Arc::clone(engine),
            group: Arc::new(LocalGroup::new(unlisted, &Arc::from("job"), terms)),
            name,
            request,
        };
        let now = engine.clock.now();
        let [over, endless] = [Some(now), None].map(|end| GroupWaiter {
            handoff: Handoff::default(),
            start: now,
            end,
            max_hold: None,
            on_wait: None,
        });
        task.group.state().turns.join(over.clone());
        task.group.state().turns.join_first(endless);
        let progress = Progress::after(Seen::held_by("AAAAAAAA"));
        let last = task.take_last_member(&progress).unwrap();
        assert!(last.handoff.is(&over.handoff));
        assert!(task.take_last_member(&progress).is_none());
    }
}
