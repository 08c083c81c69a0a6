//! The arguments of the verb for counters.

use std::time::Duration;

use clap::Args;
use leaselock::Sequencer;

use crate::{duration, manual};

/// Add to a counter and print it
///
/// Adds 1 unless a flag says otherwise. Each change counts exactly once, also when the connection breaks
/// before the reply comes. The counter begins at 0, and is kept until a program gives it a ttl.
///
/// Exits 1 when --cas finds another number, which it prints.
#[derive(Debug, Args)]
#[command(after_help = manual::COUNT, after_long_help = manual::with_exit_codes(manual::COUNT))]
pub(crate) struct CountArgs {
    /// Add this number, which may be negative [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(conflicts_with_all = ["get", "cas"])]
    pub(crate) add: Option<i64>,

    /// Only print the number
    #[arg(long, conflicts_with = "cas")]
    pub(crate) get: bool,

    /// Set the number to B if it is A
    #[arg(long, num_args = 2, value_names = ["A", "B"], allow_negative_numbers = true)]
    pub(crate) cas: Option<Vec<i64>>,

    /// Change it only if no later holder has, by the sequencer of a lease
    ///
    /// The job of `leaselock run` has it in LEASELOCK_SEQUENCER. After a later holder leaselock changes
    /// nothing and exits 79. It exits 77 if the counter was first changed under a lock of another name.
    #[arg(long, value_name = "SEQUENCER", value_parser = str::parse::<Sequencer>)]
    #[arg(conflicts_with = "get")]
    pub(crate) fenced: Option<Sequencer>,

    /// Wait until this many replicas of the server have the change
    ///
    /// If fewer have it in time, leaselock says so and exits 69. The change counts all the same.
    #[arg(long, value_name = "N", conflicts_with = "get")]
    pub(crate) min_replicas: Option<u32>,

    /// Timeout of --min-replicas [default: 1s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse, requires = "min_replicas")]
    pub(crate) replica_timeout: Option<Duration>,

    /// Name of the counter
    #[arg(value_name = "NAME")]
    pub(crate) counter: String,
}
