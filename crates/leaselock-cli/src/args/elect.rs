//! The arguments of the verbs for elections.

use clap::Args;

use super::run::{NotTaken, RunArgs, hide_flags_of_run};
use crate::manual;

const ABOUT: &str = "Campaign to lead, and run a command while leading";
const LONG_ABOUT: &str = "\
Campaign to lead, and run a command while leading

Queues for the lock, runs the command as the leader, and resigns when the command ends. The exit \
code is the command's own. When the leadership is lost, leaselock ends the command before another \
can lead, waits until the store answers, and campaigns again; with --once it exits 79 instead. A \
signal that asks for an end is passed on to the command, and ends the campaign.

The command's environment is that of run, and has LEASELOCK_TERM too: the number of this \
leadership, which grows with every leader and is the fence of the lock.";

const NOT_TAKEN: NotTaken = NotTaken {
    other_libraries: "other libraries know no leader",
    other_modes: "one leads at a time",
    several_names: "a leader leads under one name",
    queue_and_note: None,
};

/// What `run` has, but for how the lock is held.
#[derive(Debug, Args)]
#[command(about = ABOUT, long_about = LONG_ABOUT)]
#[command(after_help = manual::ELECT, after_long_help = manual::with_exit_codes(manual::ELECT))]
#[command(
    override_usage = "leaselock elect [OPTIONS] NAME [--] COMMAND [ARG]...\n       \
                            leaselock elect [OPTIONS] NAME -c SCRIPT"
)]
#[command(mut_args(hide_flags_of_run))]
pub(crate) struct ElectArgs {
    /// What followers read of this leader, such as its address [default: the host's name]
    #[arg(long, value_name = "VALUE")]
    value: Option<String>,

    /// Exit 79 when the leadership is lost, and do not campaign again
    #[arg(long)]
    pub(crate) once: bool,

    #[command(flatten)]
    pub(crate) run: RunArgs,
}

impl ElectArgs {
    /// What followers read.
    pub(crate) fn value(&self) -> String {
        self.value.clone().unwrap_or_else(host_name)
    }

    /// The second stage: refuses what only `run` can do.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.run.check_not_taken(&NOT_TAKEN)
    }
}

/// What followers read of a leader that says nothing.
pub(super) fn host_name() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

/// Print who leads
///
/// Prints the value that the leader gave, one line. Exits 1 when no client leads. With --follow it
/// prints a line for each change, an empty one when no client leads, until it is interrupted or its
/// reader is gone. A leader may be gone by the time it is printed.
#[derive(Debug, Args)]
#[command(after_help = manual::LEADER)]
pub(crate) struct LeaderArgs {
    /// Print each change, and do not end
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// Name of the election
    pub(crate) name: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Verb};
    use clap::Parser as _;

    fn elect(line: &str) -> ElectArgs {
        match Cli::try_parse_from(line.split(' ')).unwrap().verb {
            Verb::Elect(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn it_has_the_flags_of_run_but_for_those_of_other_ways_to_hold() {
        let args = elect("leaselock elect --value here --once -w 3 job -- date -u");
        assert_eq!((args.value().as_str(), args.once), ("here", true));
        assert_eq!(args.check(), Ok(()));
        assert_eq!(args.run.plan(None).unwrap().arguments, ["-u"]);
        assert!(!elect("leaselock elect job date").value().is_empty());
        for wrong in [
            "-s",
            "--also other",
            "--permits 3",
            "--like guide",
            "--protocol redisson",
        ] {
            let refused = elect(&format!("leaselock elect {wrong} job date")).check();
            assert!(refused.unwrap_err().contains("or use run"), "{wrong}");
        }
    }
}
