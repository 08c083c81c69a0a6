//! Waiting in the queue, with one entry.

pub(crate) mod entry;
pub(super) mod poller;
pub(super) mod way;
