//! The arguments of the verb that measures.

use clap::Args;

/// Measure how fast locks are on this store
///
/// Takes and gives back free locks with 1, 16 and 256 tasks at a time, then hands one lock round
/// among waiters that each have connections of their own. The names begin with leaselock-bench-
/// and are new for each run; nothing is left behind. The locks have no fencing token, because the
/// record of one outlives its lock. The store does as much as it can meanwhile, so others feel it.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// How long to measure, in all
    #[arg(long, value_name = "N", default_value = "10")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=600))]
    pub(crate) seconds: u16,

    /// How many waiters hand the one lock round
    #[arg(long, value_name = "N", default_value = "8")]
    #[arg(value_parser = clap::value_parser!(u16).range(2..=64))]
    pub(crate) waiters: u16,
}
