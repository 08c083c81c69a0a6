//! What a client runs, mostly on a thread of its own: renewal, cleanup, batches, messages, and the leases as they know
//! them.

pub(crate) mod batch;
pub(crate) mod broadcast;
pub(crate) mod cleanup;
pub(crate) mod core;
pub(crate) mod ids;
pub(crate) mod lease;
pub(crate) mod leftover;
pub(crate) mod limits;
pub(crate) mod log;
pub(crate) mod record;
pub(crate) mod renewal;
pub(crate) mod replica_pool;
pub(crate) mod requests;
pub(crate) mod shared;
pub(crate) mod thread;
pub(crate) mod totals;
pub(crate) mod wakeups;
