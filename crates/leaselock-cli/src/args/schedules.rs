//! The arguments of the verb that lists schedules.

use clap::Args;

use crate::manual;

/// List the schedules that run here, and those whose time has passed without a run
///
/// A schedule is overdue when none of its runs goes on and the clock of the store is beyond the first
/// time after the latest run or left out one, and beyond the time that a run may be late, and 2 s.
/// Times of claims without a schedule are listed too, and are never overdue.
#[derive(Debug, Args)]
#[command(after_help = manual::SCHEDULES)]
pub(crate) struct SchedulesArgs {
    /// Only names that match: * any text, ? one byte (an ASCII character), [a-z] one of these
    #[arg(default_value = "*")]
    pub(crate) pattern: String,

    /// Only schedules that are overdue; exit 1 if there is one
    #[arg(long)]
    pub(crate) overdue: bool,
}
