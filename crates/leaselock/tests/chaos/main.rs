//! Scenarios that are worth running many times: servers that die, restart, fail over and come back while locks are
//! taken. The ordinary test command runs a few rounds of each, `cargo xtask chaos` many.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[cfg(feature = "embedded")]
mod barrier;
mod breaks;
#[cfg(feature = "embedded")]
mod child;
mod cluster;
mod counter;
#[cfg(feature = "embedded")]
mod cron;
#[cfg(feature = "embedded")]
mod crowd;
#[cfg(feature = "embedded")]
mod dead_waiters;
#[cfg(feature = "embedded")]
mod deadlock;
#[cfg(feature = "embedded")]
mod election;
#[cfg(feature = "embedded")]
mod failing_process;
#[cfg(feature = "embedded")]
mod fences;
mod figures;
mod heads;
mod kinds;
#[cfg(feature = "embedded")]
mod limiter;
#[cfg(feature = "embedded")]
mod once;
#[cfg(feature = "embedded")]
mod place;
mod quarantine;
mod quorum;
mod replicas;
mod sentinel;
#[cfg(feature = "embedded")]
mod several;
mod strict;
mod witness;

pub(crate) use testkit::rounds;
