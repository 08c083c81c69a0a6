//! The tasks of one client that wait for the same lock in the same way: they share one queue entry, and a lease passes
//! from one to the next without a request.
//!
//! A task that comes while its group is empty waits by itself, as if there were no groups. When a second one comes, a task
//! on the client's own thread takes the entry over and waits for all of them (`group_task.rs`). So a task whose runtime is
//! busy delays no other. Each member has a [`Handoff`], where its lease is put.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;

use crate::base::error::{AcquireError, LostReason};
use crate::base::{Moment, debug_as, hold};
use crate::engine::guard::lease::{Lease, PassOn};
use crate::engine::services::{Engine, Id, LeaseRecord, LeaseTerms};
use crate::engine::values::{AcquireRequest, AcquireTerms, Kind, OnWait, Seen, Wait};
use crate::engine::ways::queue::entry::QueueEntry;
use crate::engine::ways::run::Progress;
use crate::engine::ways::turn_budget::{Share, TurnBudget, is_worth_passing_on};

type Offer = Result<Lease, AcquireError>;

/// Clones are the same handoff. Each hand-over goes through one, so it has one lock for all.
#[derive(Clone, Default)]
pub(crate) struct Handoff(Arc<Mutex<Inside>>);

#[derive(Default)]
struct Inside {
    offer: Option<Offer>,
    /// Of the member's callback.
    panic: Option<Box<dyn Any + Send>>,
    waker: Option<Waker>,
}

impl Handoff {
    pub(crate) fn is(&self, other: &Handoff) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Must not be called while another offer lies there.
    pub(crate) fn offer(&self, offer: Offer) {
        self.put(|inside| inside.offer = Some(offer));
    }

    fn put(&self, put: impl FnOnce(&mut Inside)) {
        let waker = {
            let mut inside = hold(&self.0);
            put(&mut inside);
            inside.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// What lies there and was not taken. To be dropped where no lock is held: a lease that is dropped passes on.
    pub(crate) fn take_back(&self) -> Option<Offer> {
        hold(&self.0).offer.take()
    }

    /// Calls the member's callback. A panic of it goes on in the member's own task, and reaches no other.
    pub(crate) fn call(&self, callback: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(callback)) {
            self.put(|inside| inside.panic = Some(panic));
        }
    }

    /// Takes an offer that is not taken back, or has the task woken by it.
    pub(crate) fn poll_taken(&self, cx: &mut Context<'_>) -> Poll<Offer> {
        let mut inside = hold(&self.0);
        if let Some(panic) = inside.panic.take() {
            drop(inside);
            resume_unwind(panic);
        }
        if let Some(offer) = inside.offer.take() {
            return Poll::Ready(offer);
        }
        inside.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

debug_as!(Handoff, _it => {});

/// What tasks must have in common to share a queue entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupTerms {
    pub(crate) kind: &'static Kind,
    pub(crate) asked: AcquireTerms,
}

impl GroupTerms {
    /// `None` for a task that shares nothing: a lease that is not renewed ends at a time of its own, a note is about one
    /// task, and copies are counted for each grant.
    pub(crate) fn of(kind: &'static Kind, request: &AcquireRequest, wait: Wait) -> Option<Self> {
        let waits = matches!(wait, Wait::Timeout(_) | Wait::Forever);
        let plain = request.terms.renews && request.why.is_none() && request.copies.is_none();
        (waits && plain && kind.local_hand_over).then_some(GroupTerms {
            kind,
            asked: request.terms,
        })
    }
}

/// One member.
#[derive(Clone)]
pub(crate) struct GroupWaiter {
    pub(crate) handoff: Handoff,
    pub(crate) start: Moment,
    pub(crate) end: Option<Moment>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) on_wait: Option<OnWait>,
}

impl GroupWaiter {
    /// When it gives up. `answered`: without an end it does not.
    pub(super) fn gives_up_at(&self, answered: bool, or_after: Duration) -> Option<Moment> {
        let never_answered = (!answered).then(|| self.start.plus(or_after));
        self.end.or(never_answered)
    }
}

/// Where the groups of a client are listed.
pub(crate) trait Registry: std::fmt::Debug + Send + Sync {
    /// Forgets a group that has no task any more.
    fn tidy(&self, group: &Arc<LocalGroup>);

    /// True if a task of this client with a higher priority waits for the same lock.
    fn is_urgent(&self, key: &str, priority: i32) -> bool;
}

#[derive(Debug)]
pub(crate) struct LocalGroup {
    pub(crate) key: Arc<str>,
    pub(crate) terms: GroupTerms,
    /// Where it is listed; gone with the client.
    groups: Weak<dyn Registry>,
    pub(super) state: Mutex<GroupState>,
    /// Something has changed that the group's task may wait for.
    pub(crate) changed: Notify,
    /// The task that waits by itself is to hand its entry over to the group.
    pub(crate) called: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct GroupState {
    pub(crate) turns: TurnBudget<GroupWaiter>,
    pub(crate) has_solo: bool,
    /// True if several tasks used it: it is not used again when it is empty.
    pub(crate) used: bool,
    /// The entry of the task that waited by itself.
    pub(crate) handed_over: Option<(QueueEntry, Progress)>,
    pub(crate) has_task: bool,
    pub(crate) current: Option<Current>,
    /// The latest answer of the store.
    pub(crate) seen: Option<(Seen, u64)>,
    /// True if the group's task has an entry, or is about to make one.
    pub(crate) in_queue: bool,
    /// When the group's task reviews the wait, if nothing happens before.
    pub(crate) review_at: Option<Moment>,
}

/// The lease that passes from task to task.
#[derive(Debug)]
pub(crate) struct Current {
    pub(crate) kept: Arc<LeaseRecord>,
    /// The member that has it, and since when; `None` for the task that waited by itself.
    pub(crate) member: Option<(GroupWaiter, Moment)>,
}

impl GroupState {
    pub(crate) fn is_idle(&self) -> bool {
        self.is_unused() && !self.has_solo && !self.has_task
    }

    /// True if no member waits, and none holds the lease.
    pub(super) fn is_unused(&self) -> bool {
        self.turns.waiters.is_empty() && self.current.is_none()
    }

    /// When the last member gives up.
    pub(crate) fn latest_end(&self, or_after: Duration) -> Option<Moment> {
        let waiters = self.turns.waiters.iter();
        let ends = waiters.map(|w| w.end.unwrap_or_else(|| w.start.plus(or_after)));
        ends.max()
    }

    /// When the first member gives up. `answered`: a member without an end does not.
    pub(crate) fn next_end(&self, answered: bool, or_after: Duration) -> Option<Moment> {
        let ends = (self.turns.waiters.iter()).filter_map(|w| w.gives_up_at(answered, or_after));
        ends.min()
    }
}

impl LocalGroup {
    pub(crate) fn new(groups: Weak<dyn Registry>, key: &Arc<str>, terms: GroupTerms) -> Self {
        LocalGroup {
            key: Arc::clone(key),
            terms,
            groups,
            state: Mutex::default(),
            changed: Notify::new(),
            called: Notify::new(),
        }
    }

    /// Leaves the list if no task belongs to the group any more.
    pub(crate) fn tidy(self: &Arc<Self>) {
        if let Some(groups) = self.groups.upgrade() {
            groups.tidy(self);
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, GroupState> {
        hold(&self.state)
    }

    /// Passes the lease to a member. The lease so far has ended, so no two are held at once.
    fn give(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        state: &mut GroupState,
        (kept, id): (&Arc<LeaseRecord>, Id),
        waiter: GroupWaiter,
        fence: Option<leaselock_fence::Fence>,
        now: Moment,
    ) {
        let core = kept
            .core()
            .passed_on(now, self.terms.asked.ttl, waiter.max_hold);
        let longest = waiter.max_hold.unwrap_or(Duration::MAX);
        engine.store.limit_session(now.plus(longest));
        let next = Arc::new(kept.passed_on(fence, core));
        let id = match engine.background() {
            Ok(background) => background.renewal.pass_on(id, Arc::clone(&next)),
            Err(_) => id,
        };
        let lease = Lease::new(Arc::clone(engine), Arc::clone(&next), id).shared(self.clone());
        let handoff = waiter.handoff.clone();
        state.current = Some(Current {
            kept: next,
            member: Some((waiter, now)),
        });
        handoff.offer(Ok(lease));
    }

    /// A grant to the entry goes to the first member. The lease comes back when there is none.
    pub(crate) fn granted(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        lease: Lease,
        mut share: Share,
    ) -> Option<Lease> {
        // A late request is undone when the lease ends, so the lease ends with its first task. A more urgent task may be
        // about to enter the queue.
        let (key, priority) = (&self.key, self.terms.asked.priority);
        let groups = self.groups.upgrade();
        let urgent = groups.is_some_and(|groups| groups.is_urgent(key, priority));
        if urgent || lease.expects_late_requests() {
            share.range = 1;
        }
        let now = engine.clock.now();
        let before; // is dropped behind the lock: a lease that lies in its handoff passes on
        let mut state = self.state();
        let (_, kept, id) = lease.parts();
        let Some(waiter) = state.turns.first(kept.fence, share, now) else {
            return Some(lease);
        };
        before = state.current.take();
        if let Some(before) = &before {
            before.kept.end(LostReason::TakenOver, now); // the store has granted another token since
        }
        if lease.expects_late_requests() {
            state.turns.end();
            kept.core().offer();
            if let Some(longest) = waiter.max_hold {
                let terms = LeaseTerms {
                    hold_until: Some(now.plus(longest)),
                    ..kept.core().terms() // the entry is that of all members
                };
                kept.core().set_terms(terms, now);
            }
            waiter.handoff.offer(Ok(lease));
            return None;
        }
        if kept.end(LostReason::Released, now) {
            let fence = kept.fence;
            self.give(engine, &mut state, (kept, id), waiter, fence, now);
            lease.disown();
            return None;
        }
        state.turns.join_first(waiter);
        Some(lease)
    }
}

impl PassOn for LocalGroup {
    fn pass_on(self: Arc<Self>, engine: &Arc<Engine>, kept: &Arc<LeaseRecord>, id: Id) -> bool {
        let now = engine.clock.now();
        let lost = kept.lost_by(now).is_some();
        let mut state = self.state();
        if !is_current(&state, kept) {
            return false;
        }
        let left = kept.core().deadline().saturating_since(now);
        let granted = self.terms.asked.passed().as_duration();
        let fit = !lost && is_worth_passing_on(left, granted);
        let next = if fit { state.turns.next(now) } else { None };
        if let Some((waiter, fence)) = next {
            if kept.end(LostReason::Released, now) {
                self.give(engine, &mut state, (kept, id), waiter, fence, now);
                return true;
            }
            state.turns.join_first(waiter); // it was lost just now
        }
        state.turns.end();
        state.current = None;
        let concerns_the_task = state.turns.waiters.is_empty() || !state.in_queue;
        drop(state);
        if concerns_the_task {
            self.changed.notify_one();
        }
        self.tidy();
        false
    }

    fn end_of(self: Arc<Self>, kept: &Arc<LeaseRecord>) {
        let mut state = self.state();
        if is_current(&state, kept) {
            state.turns.end();
            state.current = None;
        }
        drop(state);
        self.changed.notify_one();
        self.tidy();
    }
}

fn is_current(state: &GroupState, kept: &Arc<LeaseRecord>) -> bool {
    let current = state.current.as_ref();
    current.is_some_and(|current| Arc::ptr_eq(&current.kept, kept))
}

debug_as!(GroupWaiter, it => { end: it.end });

#[cfg(all(test, feature = "embedded"))]
mod handoff_tests {
    use std::sync::Weak;
    use std::thread;

    use super::*;
    use crate::Client;
    use crate::engine::ways::local::groups::GroupMember;
    use crate::engine::ways::local::groups::LocalGroups;
    use crate::engine::ways::turn_budget::Share;
    use crate::mutex::MUTEX;

    /// A lock that so many checks in a row find taken is kept.
    const CHECKS: usize = 1_000;

    /// A group that no other task can join.
    fn unlisted_group(lease: &Lease) -> Arc<LocalGroup> {
        let terms = GroupTerms {
            kind: &MUTEX,
            asked: AcquireTerms::plain(lease.parts().1.ttl()),
        };
        let unlisted = Weak::<LocalGroups>::new();
        Arc::new(LocalGroup::new(unlisted, &Arc::from("job"), terms))
    }

    /// It goes while the task of its group takes the grant back that it has not taken.
    #[tokio::test]
    async fn a_member_that_goes_away_with_its_grant_does_not_stay_in_its_group() {
        let client = Client::open("mem:").unwrap();
        let lease = client.mutex("job").try_acquire().await.unwrap().unwrap();
        let engine = Arc::clone(client.engine());
        let group = unlisted_group(&lease);
        let [late, other] = [(); 2].map(|()| GroupWaiter {
            handoff: Handoff::default(),
            start: engine.clock.now(),
            end: None,
            max_hold: None,
            on_wait: None,
        });
        let is_late = |waiter: &GroupWaiter| waiter.handoff.is(&late.handoff);
        group.state().turns.join(late.clone());
        group.state().turns.join(other);
        let share = Share {
            range: 64,
            others: false,
        };
        assert!(group.granted(&engine, lease, share).is_none());
        group.state().turns.join(late.clone()); // it is seen to leave

        let mut inside = hold(&late.handoff.0);
        let member = GroupMember::new(Arc::clone(&group), late.handoff.clone());
        let goes = thread::spawn(move || drop(member));
        let (mut taken_back, mut locked) = (None, 0);
        while locked < CHECKS && taken_back.is_none() {
            match group.state.try_lock() {
                Ok(mut state) if !state.turns.waiters.iter().any(is_late) => {
                    taken_back = inside.offer.take();
                    state.turns.join(late.clone());
                }
                Ok(_) => locked = 0,
                Err(_) => locked += 1,
            }
            thread::yield_now();
        }
        drop(inside);
        goes.join().unwrap();
        drop(taken_back);
        let state = group.state();
        assert!(!state.turns.waiters.iter().any(is_late));
        let current = state.current.as_ref();
        let holder = current.and_then(|current| current.member.as_ref());
        assert!(!holder.is_some_and(|(member, _)| is_late(member)));
    }

    /// The entry of the group asks for no longest hold, because each member has one of its own.
    #[tokio::test]
    async fn a_grant_behind_a_lost_reply_is_held_no_longer_than_its_member_may() {
        let client = Client::open("mem:").unwrap();
        let lease = client.mutex("job").try_acquire().await.unwrap();
        let mut lease = lease.unwrap();
        lease.expect_late_requests();
        let engine = Arc::clone(client.engine());
        let group = unlisted_group(&lease);
        let longest = lease.parts().1.ttl().as_duration() * 2;
        let waiter = GroupWaiter {
            handoff: Handoff::default(),
            start: engine.clock.now(),
            end: None,
            max_hold: Some(longest),
            on_wait: None,
        };
        let handoff = waiter.handoff.clone();
        group.state().turns.join(waiter);
        let share = Share {
            range: 1,
            others: false,
        };
        assert!(group.granted(&engine, lease, share).is_none());
        let granted = handoff.take_back().unwrap().unwrap();
        let until = granted.parts().1.core().terms().hold_until.unwrap();
        assert!(until <= engine.clock.now().plus(longest));
    }
}
