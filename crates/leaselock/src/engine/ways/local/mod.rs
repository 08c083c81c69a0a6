//! Tasks of one client that wait for the same lock: they share one queue entry.

pub(crate) mod group;
pub(crate) mod group_task;
pub(crate) mod groups;
