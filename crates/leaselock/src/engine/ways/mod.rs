//! Waiting: the queue, polls, and wake-ups.

pub(crate) mod acquire;
pub(crate) mod all;
pub(crate) mod attempt;
mod channel;
pub(crate) mod deadlock;
mod failure;
mod far;
pub(crate) mod first_try;
pub(crate) mod key_watch;
pub(crate) mod local;
pub(crate) mod node_subscription;
mod owned;
mod patience;
#[cfg(all(test, feature = "embedded"))]
mod patience_tests;
mod poll;
pub(crate) mod polling;
pub(crate) mod queue;
mod queued;
pub(crate) mod rights;
#[cfg(feature = "redis")]
pub(crate) mod round;
mod run;
pub(crate) mod schedule;
mod solo;
#[cfg(all(test, feature = "embedded"))]
mod tests;
pub(crate) mod trying;
pub(crate) mod turn_budget;
#[cfg(feature = "redis")]
pub(crate) mod voting;
