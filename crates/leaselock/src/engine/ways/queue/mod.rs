//! Waiting in the queue, with one entry.

mod channel;
pub(super) mod entry;
mod far;
pub(super) mod poller;
pub(super) mod queued;
pub(super) mod way;
