//! The arguments of the verb for latches.

use std::time::Duration;

use clap::Args;

use crate::{duration, manual};

/// Show a latch, arrive at it, or wait until all have arrived
///
/// A latch opens when so many parties have arrived, and stays open. Parties have names, so one that
/// is started again counts once. Exits 75 when the wait ends before all have arrived. It is kept for
/// seven days after the latest arrival.
#[derive(Debug, Args)]
#[command(after_help = manual::LATCH, after_long_help = manual::with_exit_codes(manual::LATCH))]
pub(crate) struct LatchArgs {
    /// How many parties there are
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) count: u32,

    /// Arrive as this party
    #[arg(long, value_name = "PARTY")]
    pub(crate) arrive: Option<String>,

    /// Wait until all have arrived
    #[arg(long = "wait")]
    waits: bool,

    /// Wait at most this long [default: forever]
    #[arg(short, value_name = "DUR", value_parser = duration::parse)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) within: Option<Duration>,

    /// Name of the latch
    #[arg(value_name = "NAME")]
    pub(crate) latch: String,
}

impl LatchArgs {
    /// A limit is a wait too.
    pub(crate) fn waits(&self) -> bool {
        self.waits || self.within.is_some()
    }
}
