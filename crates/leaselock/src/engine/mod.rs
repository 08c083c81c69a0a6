//! Acquiring, waiting, renewing, releasing: one of each, for every primitive.

#[cfg(feature = "redis")]
pub(crate) mod ballot;
pub(crate) mod batch;
pub(crate) mod calls;
pub(crate) mod calls_many;
pub(crate) mod cleanup;
pub(crate) mod compare_and_delete;
pub(crate) mod core;
pub(crate) mod custom;
pub(crate) mod gate;
pub(crate) mod identity;
pub(crate) mod lease;
pub(crate) mod limits;
pub(crate) mod note;
pub(crate) mod position;
pub(crate) mod renewal;
pub(crate) mod replicas;
pub(crate) mod request;
pub(crate) mod requests;
pub(crate) mod rights;
pub(crate) mod thread;
#[cfg(feature = "redis")]
pub(crate) mod verdicts;
pub(crate) mod wait;
