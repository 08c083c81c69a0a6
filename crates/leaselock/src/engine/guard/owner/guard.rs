//! One guard of a lease of an owner: its release is that of the lease when it is the last one.

use std::sync::Arc;

use super::handle::OwnerState;
use crate::base::Ttl;
use crate::engine::guard::lease::PassOn;
use crate::engine::services::{Engine, Id, LeaseRecord};

pub(crate) struct Guard {
    owner: Arc<OwnerState>,
    key: Arc<str>,
    number: u64,
}

impl Guard {
    pub(crate) fn new(owner: &Arc<OwnerState>, key: &Arc<str>, number: u64) -> Self {
        Guard {
            owner: Arc::clone(owner),
            key: Arc::clone(key),
            number,
        }
    }
}

impl PassOn for Guard {
    /// The other guards keep the lease, also one that is lost: the last of them gives back what the store still has.
    fn pass_on(self: Arc<Self>, engine: &Arc<Engine>, _: &Arc<LeaseRecord>, _: Id) -> bool {
        let mut holds = self.owner.holds();
        let Some(hold) = holds.remove(&self.key, self.number) else {
            return false;
        };
        hold.apply(engine);
        true
    }

    fn end_of(self: Arc<Self>, _: &Arc<LeaseRecord>) {
        self.owner.holds().remove(&self.key, self.number);
    }

    fn is_shared(&self) -> bool {
        let mut holds = self.owner.holds();
        let hold = holds.of_guard(&self.key, self.number);
        hold.is_some_and(|hold| hold.is_shared())
    }

    fn set_changing(&self, changing: bool) -> bool {
        let mut holds = self.owner.holds();
        if let Some(hold) = holds.of_guard(&self.key, self.number) {
            hold.changing = changing;
        }
        true
    }

    fn changed(&self, into: &Arc<LeaseRecord>, id: Id, late_requests: bool) {
        let mut holds = self.owner.holds();
        if let Some(hold) = holds.of_guard(&self.key, self.number) {
            hold.becomes(into, id, late_requests);
        }
    }

    fn renewal_ttl(&self, asked: Ttl) -> Ttl {
        let mut holds = self.owner.holds();
        let hold = holds.of_guard(&self.key, self.number);
        hold.map_or(asked, |hold| hold.extended(self.number, asked))
    }
}
