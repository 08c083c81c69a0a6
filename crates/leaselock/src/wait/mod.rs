//! Waiting: how often to look, the line, and the wake-ups.

pub(crate) mod acquisition;
mod company;
pub(crate) mod copies;
mod driver;
mod ear;
mod far;
mod foreign;
pub(crate) mod gates;
pub(crate) mod grant;
mod line;
pub(crate) mod looks;
pub(crate) mod parties;
pub(crate) mod party;
#[cfg(all(test, feature = "embedded"))]
mod patience_tests;
mod progress;
pub(crate) mod reckoning;
pub(crate) mod rights;
mod rings;
#[cfg(feature = "redis")]
pub(crate) mod rooms;
#[cfg(feature = "redis")]
mod rounds;
mod seat;
#[cfg(all(test, feature = "embedded"))]
mod tests;
mod tries;
pub(crate) mod turns;
#[cfg(feature = "redis")]
mod vote;
pub(crate) mod wakeups;
