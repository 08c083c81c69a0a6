//! To whom a lease passes within its client, as the lease sees it.

use std::sync::Arc;

use crate::base::Ttl;
use crate::engine::services::{Engine, Id, LeaseRecord};

/// Who gets a lease without a request when its holder releases it: a waiting task of this client, or the other guards of
/// an [owner](crate::engine::guard::owner::Owner).
pub(crate) trait PassOn: Send + Sync {
    /// Passes the lease on. False when there is no one to get it: the caller then releases the lease.
    fn pass_on(self: Arc<Self>, engine: &Arc<Engine>, record: &Arc<LeaseRecord>, id: Id) -> bool;

    /// Ends that without a next holder, because the lease is detached.
    fn end_of(self: Arc<Self>, record: &Arc<LeaseRecord>);

    /// True if others hold the lease at the same time.
    fn is_shared(&self) -> bool {
        false
    }

    /// Notes whether a request may change how the lease is held. False if the lease passes to no one after a change.
    fn set_changing(&self, _changing: bool) -> bool {
        false
    }

    /// Goes on with the lease that this one was changed into.
    ///
    /// `late_requests`: the server may still run a request of the acquisition.
    fn changed(&self, _into: &Arc<LeaseRecord>, _id: Id, _late_requests: bool) {}

    /// Returns the ttl that renewals ask for after the holder has extended the lease to `asked`.
    fn renewal_ttl(&self, asked: Ttl) -> Ttl {
        asked
    }
}
