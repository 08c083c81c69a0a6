//! Scenarios that are worth running many times: servers that die, restart, fail over and come back while locks are
//! taken. The ordinary test command runs a few rounds of each, `cargo xtask chaos` many.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[cfg(feature = "embedded")]
mod barrier;
#[cfg(feature = "embedded")]
mod child;
mod cluster;
#[cfg(feature = "embedded")]
mod crowd;
#[cfg(feature = "embedded")]
mod deadlock;
#[cfg(feature = "embedded")]
mod election;
mod figures;
mod heads;
mod kinds;
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

/// How many rounds: few with all other tests, `long` for `cargo xtask chaos`, or as many as `LEASELOCK_TEST_ROUNDS`
/// says.
pub(crate) fn rounds(few: usize, long: usize) -> usize {
    let wanted = std::env::var("LEASELOCK_TEST_ROUNDS").ok();
    match wanted.as_deref() {
        Some("long") => long,
        Some(count) => count.parse().unwrap(),
        None => few,
    }
}
