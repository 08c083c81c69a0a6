//! Waiting: how often to look, the line, and the wake-ups.

pub(crate) mod acquire;
mod far;
pub(crate) mod first_try;
pub(crate) mod grant_deadline;
pub(crate) mod grant_message;
pub(crate) mod key_watch;
pub(crate) mod local;
pub(crate) mod node_subscription;
pub(crate) mod notifier;
#[cfg(all(test, feature = "embedded"))]
mod patience_tests;
pub(crate) mod polling;
mod progress;
pub(crate) mod queue;
pub(crate) mod rights;
#[cfg(feature = "redis")]
pub(crate) mod round;
pub(crate) mod schedule;
#[cfg(all(test, feature = "embedded"))]
mod tests;
#[cfg(feature = "redis")]
pub(crate) mod voting;
