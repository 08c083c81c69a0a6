//! Where a member of a group waits: a lease is put there, and the member takes it when it is polled.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::base::error::AcquireError;
use crate::base::{debug_as, hold};
use crate::engine::guard::lease::Lease;

type Offer = Result<Lease, AcquireError>;

/// Clones are the same handoff.
#[derive(Clone, Default)]
pub(crate) struct Handoff(Arc<Inside>);

#[derive(Default)]
struct Inside {
    offer: Mutex<Option<Offer>>,
    /// Of the member's callback.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    offered: Notify,
}

impl Handoff {
    pub(crate) fn is(&self, other: &Handoff) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Must not be called while another offer lies there.
    pub(crate) fn offer(&self, offer: Offer) {
        *hold(&self.0.offer) = Some(offer);
        self.0.offered.notify_one();
    }

    /// What lies there and was not taken. To be dropped where no lock is held: a lease that is dropped passes on.
    pub(crate) fn take_back(&self) -> Option<Offer> {
        hold(&self.0.offer).take()
    }

    /// Calls the member's callback. A panic of it goes on in the member's own task, and reaches no other.
    pub(crate) fn call(&self, callback: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(callback)) {
            *hold(&self.0.panic) = Some(panic);
            self.0.offered.notify_one();
        }
    }

    /// Waits for an offer that is not taken back.
    pub(crate) async fn taken(&self) -> Offer {
        loop {
            let panic = hold(&self.0.panic).take();
            if let Some(panic) = panic {
                resume_unwind(panic);
            }
            if let Some(offer) = self.take_back() {
                return offer;
            }
            self.0.offered.notified().await;
        }
    }
}

debug_as!(Handoff, _it => {});

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use std::sync::Weak;
    use std::thread;

    use super::*;
    use crate::Client;
    use crate::engine::ways::local::arrival::GroupMember;
    use crate::engine::ways::local::group::{GroupTerms, GroupWaiter, LocalGroup};
    use crate::engine::ways::local::groups::LocalGroups;
    use crate::engine::ways::turn_budget::Share;
    use crate::mutex::MUTEX;

    /// A lock that so many checks in a row find taken is kept.
    const CHECKS: usize = 1_000;

    /// It goes while the task of its group takes the grant back that it has not taken.
    #[tokio::test]
    async fn a_member_that_goes_away_with_its_grant_does_not_stay_in_its_group() {
        let client = Client::open("mem:").unwrap();
        let lease = client.mutex("job").try_acquire().await.unwrap().unwrap();
        let engine = Arc::clone(client.engine());
        let terms = GroupTerms {
            kind: &MUTEX,
            ttl: lease.parts().1.ttl(),
            priority: 0,
            fencing: true,
        };
        let unlisted = Weak::<LocalGroups>::new();
        let group = Arc::new(LocalGroup::new(unlisted, &Arc::from("job"), terms));
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

        let mut grant = hold(&late.handoff.0.offer);
        let member = GroupMember::new(Arc::clone(&group), late.handoff.clone());
        let goes = thread::spawn(move || drop(member));
        let (mut taken_back, mut locked) = (None, 0);
        while locked < CHECKS && taken_back.is_none() {
            match group.state.try_lock() {
                Ok(mut state) if !state.turns.waiters.iter().any(is_late) => {
                    taken_back = grant.take();
                    state.turns.join(late.clone());
                }
                Ok(_) => locked = 0,
                Err(_) => locked += 1,
            }
            thread::yield_now();
        }
        drop(grant);
        goes.join().unwrap();
        drop(taken_back);
        let state = group.state();
        assert!(!state.turns.waiters.iter().any(is_late));
        let current = state.current.as_ref();
        let holder = current.and_then(|current| current.member.as_ref());
        assert!(!holder.is_some_and(|(member, _)| is_late(member)));
    }
}
