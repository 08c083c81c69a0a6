//! The way in which several names are held.

use leaselock_fence::{Fence, Name, Sequencer};

use crate::engine::guard::lease::handle::modes;
use crate::engine::guard::lease::{Lease, both_tell};

/// Several names, held as one: see [`MultiLock`](crate::multilock::MultiLock).
///
/// Its lease reads as that of one name: the earliest deadline, the worst state, the first loss. It has no `name` and no
/// `fence`: each name has its own, in [`fences`](Lease::fences). After the loss of one name the others stay held until the
/// release, so what they protect stays protected while you stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Several;

modes! {
    Several;
}

impl Lease<Several> {
    /// Returns the lease of each name, in the order in which the caller gave the names.
    pub fn leases(&self) -> &[Lease] {
        self.each()
    }
}

both_tell! { Several {
    /// Returns the names that are held, in the order in which the caller gave them.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.records().map(|record| &record.name)
    }

    /// Returns each name with its fencing token. A resource compares the token of its own name.
    pub fn fences(&self) -> impl Iterator<Item = (&Name, Option<Fence>)> {
        self.records().map(|record| (&record.name, record.fence))
    }

    /// Returns what you show to the resource of each name, in the order of the names; nothing for a name without
    /// fencing.
    pub fn sequencers(&self) -> impl Iterator<Item = Sequencer> {
        self.records().filter_map(|record| record.sequencer())
    }
} }
