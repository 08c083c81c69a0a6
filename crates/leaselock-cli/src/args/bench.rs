//! The arguments of the verb that measures.

use clap::Args;

/// Measure how fast locks are on this store
///
/// Acquires and releases free locks with 1, 16 and 256 tasks at a time. Then waiters with their own
/// connections pass one lock on. The names begin with leaselock-bench- and are new for each run;
/// no key stays. The locks have no fencing token, because its key would outlive the lock. The
/// benchmark loads the store fully, so other clients get slower.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Seconds to measure, in all
    #[arg(long, value_name = "N", default_value = "10")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=600))]
    pub(crate) seconds: u16,

    /// Number of waiters for the hand-over
    #[arg(long, value_name = "N", default_value = "8")]
    #[arg(value_parser = clap::value_parser!(u16).range(2..=64))]
    pub(crate) waiters: u16,
}
