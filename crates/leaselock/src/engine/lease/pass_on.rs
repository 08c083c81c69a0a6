//! Local hand-over, as a lease sees it.

use std::sync::Arc;

use super::deadlines::Id;
use super::record::LeaseRecord;
use crate::engine::core::Engine;

/// The waiting tasks of this client, one of which gets the lease without a request when its owner releases it.
pub(crate) trait PassOn: Send + Sync {
    /// Hands the lease of one task to the next. False when no task waits: the caller then releases the lease.
    fn pass_on(self: Arc<Self>, engine: &Arc<Engine>, record: &Arc<LeaseRecord>, id: Id) -> bool;

    /// Ends the local hand-over without a next task, because the lease is detached.
    fn end_of(self: Arc<Self>, record: &Arc<LeaseRecord>);
}
