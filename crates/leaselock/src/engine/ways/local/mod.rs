//! Tasks of one client that wait for the same lock: they share one queue entry.

pub(crate) mod arrival;
pub(crate) mod group;
pub(crate) mod group_task;
pub(crate) mod groups;
pub(crate) mod handoff;
mod members;
pub(crate) mod way;
