//! The arguments of the verb for counters.

use clap::Args;

use crate::manual;

/// Add to a counter and print it
///
/// Adds 1 unless a flag says otherwise. Each change counts exactly once, also when the connection breaks
/// before the reply comes. The counter begins at 0 and is kept for ever.
///
/// Exits 1 when --cas finds another number, which it prints.
#[derive(Debug, Args)]
#[command(after_help = manual::COUNT)]
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

    /// Name of the counter
    #[arg(value_name = "NAME")]
    pub(crate) counter: String,
}
