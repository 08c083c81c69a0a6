//! Waiting: how often to look, the line, and the wake-ups.

pub(crate) mod acquisition;
pub(crate) mod grant;
mod line;
pub(crate) mod looks;
pub(crate) mod reckoning;
#[cfg(all(test, feature = "embedded"))]
mod tests;
pub(crate) mod wakeups;
