//! Which nodes have no vote for a lease.

use std::collections::HashMap;

use crate::engine::services::lease::deadlines::Id;

/// The nodes without a vote for a lease, as bits; leases that all have voted for are not here.
#[derive(Debug, Default)]
pub(super) struct MissingVotes(HashMap<Id, u32>);

impl MissingVotes {
    pub(super) fn note(&mut self, id: Id, at: usize) {
        *self.0.entry(id).or_default() |= 1 << at;
    }

    pub(super) fn take(&mut self, id: Id) -> u32 {
        self.0.remove(&id).unwrap_or(0)
    }
}
