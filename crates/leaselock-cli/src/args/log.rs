//! The arguments of the verb that prints the event log.

use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::{duration, manual};

/// The words for what happened, as docs/operations.md has them.
pub(crate) const KINDS: [&str; 17] = [
    "lost",
    "broken",
    "permits_pinned",
    "permits_unpinned",
    "deadlock",
    "renewal_late",
    "clock_jumped",
    "leader_changed",
    "run_crashed",
    "run_given_up",
    "tick_missed",
    "tick_left_out",
    "tick_failed",
    "barrier_missed",
    "quarantine_began",
    "quarantine_over",
    "left_out",
];

/// Print the event log: what was lost, broken or missed
///
/// Lost and broken leases, deadlocks, runs that crashed, ticks that were missed, and what else is rare.
/// The newest entry is the last. The store keeps the newest 1,000, for seven days at most. Clients
/// write them, and each that may take a lock may write any: they are shown, and not proven.
#[derive(Debug, Args)]
#[command(after_help = manual::LOG)]
pub(crate) struct LogArgs {
    /// Go on with each new entry, until it is interrupted
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// Only what happened like this
    #[arg(short, long, value_name = "KIND", value_parser = PossibleValuesParser::new(KINDS))]
    #[arg(hide_short_help = true)]
    pub(crate) kind: Option<String>,

    /// Only entries that are not older, by the store's clock [default: all]
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) since: Option<Duration>,

    /// Only entries about this lock
    pub(crate) name: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the section *Event log*.
    #[test]
    fn the_page_has_these_kinds_and_no_others() {
        let page = include_str!("../../../../docs/operations.md");
        let section = page
            .split("\n## ")
            .find(|part| part.starts_with("Event log"));
        let rows = section
            .unwrap()
            .lines()
            .filter(|line| line.starts_with("| `"));
        let named: Vec<_> = rows.filter_map(|row| row.split('`').nth(1)).collect();
        assert_eq!(named, KINDS);
    }
}
