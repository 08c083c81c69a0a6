//! Waiting: how often to look, the line, and the wake-ups.

pub(crate) mod acquisition;
mod line;
pub(crate) mod looks;
pub(crate) mod wakeups;
