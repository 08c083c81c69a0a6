//! Scenarios that are worth running many times: servers that die, restart, fail over and come back while locks are
//! taken. The ordinary test command runs a few rounds of each, `cargo xtask chaos` many.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod cluster;
#[cfg(feature = "embedded")]
mod crowd;
mod figures;
mod heads;
mod kinds;
mod quarantine;
mod quorum;
mod replicas;
mod sentinel;
mod strict;

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
