//! Several leases as one, to read.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::{Fence, Name, Sequencer};

use super::loss::MultiLossWatch;
use crate::base::clock::Moment;
use crate::engine::guard::lease::{LeaseState, LeaseView};

/// A read-only view of a [`MultiLease`](crate::multilock::MultiLease). Clones are cheap and `'static`, and keep no lease alive.
#[derive(Clone)]
pub struct MultiLeaseView {
    pub(super) leases: Arc<[LeaseView]>,
}

impl MultiLeaseView {
    /// The names that are held, in the order in which the caller gave them.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.leases.iter().map(LeaseView::name)
    }

    /// The fencing token of the first name; `None` when fencing was switched off.
    pub fn fence(&self) -> Option<Fence> {
        self.leases.first().and_then(LeaseView::fence)
    }

    /// Each name with its fencing token. A resource compares the token of its own name.
    pub fn fences(&self) -> impl Iterator<Item = (&Name, Option<Fence>)> {
        let leases = self.leases.iter();
        leases.map(|lease| (lease.name(), lease.fence()))
    }

    /// What you show to the resource of each name, in the order of the names; nothing for a name without fencing.
    pub fn sequencers(&self) -> impl Iterator<Item = Sequencer> {
        self.leases.iter().filter_map(LeaseView::sequencer)
    }

    /// Until when you may act, unless the leases are extended: the earliest deadline of all names.
    pub fn deadline(&self) -> Moment {
        let deadlines = self.leases.iter().map(LeaseView::deadline);
        deadlines.min().unwrap_or(Moment::from_nanos(0))
    }

    /// How long you may still act, unless the leases are extended; zero when one of them is lost.
    pub fn remaining(&self) -> Duration {
        let left = self.leases.iter().map(LeaseView::remaining);
        left.min().unwrap_or_default()
    }

    /// True if every name is held, so that you may act now. Reads the clock.
    pub fn is_held(&self) -> bool {
        self.leases.iter().all(LeaseView::is_held)
    }

    /// Lost if one lease is lost, suspect if one is suspect, held otherwise.
    pub fn state(&self) -> LeaseState {
        let mut states = self.leases.iter().map(LeaseView::state);
        let worse = |one, other| match (one, other) {
            (LeaseState::Lost(_), _) | (_, LeaseState::Held) => one,
            _ => other,
        };
        let first = states.next().unwrap_or(LeaseState::Held);
        states.fold(first, worse)
    }

    /// Returns a future that resolves when the first of the leases ends.
    ///
    /// The others stay held until [`release`](crate::multilock::MultiLease::release): what they protect stays protected while you
    /// stop.
    pub fn lost(&self) -> MultiLossWatch {
        MultiLossWatch::new(self.leases.iter().map(LeaseView::lost))
    }
}

impl fmt::Debug for MultiLeaseView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.leases.iter()).finish()
    }
}
