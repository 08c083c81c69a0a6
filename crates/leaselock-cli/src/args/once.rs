//! The arguments of the verb for work that runs once.

use std::time::Duration;

use clap::{Args, ValueEnum};
use leaselock::Client;
use leaselock::once::Once;
use leaselock::options::OnCrash;

use super::run::{NotTaken, RunArgs, hide_flags_of_run};
use crate::exit::Exit;
use crate::{duration, manual};

const ABOUT: &str = "Run a command once for a key, and give every caller its output";
const LONG_ABOUT: &str = "\
Run a command once for a key, and give every caller its output

One caller runs the command. The others wait, then print its standard output and exit 0, now and \
until the result is not kept any more. Standard output passes through, and is kept up to 1 MiB less \
64 bytes; standard error is not kept. An output that cannot be written is a failure. If the command fails, callers that waited exit with its code and print no \
output; the next caller runs it again. With --keep-failures all callers print its output and exit with \
its code. A run that was killed or has lost its lease has crashed.

The key is the name of a lock, which is held while the command runs. The command's environment is \
that of run.";

const NOT_TAKEN: NotTaken = NotTaken {
    other_libraries: "other libraries know no results",
    other_modes: "one runs at a time",
    several_names: "a result has one key",
    queue_and_note: Some("callers wait in no queue, and a run has no note"),
};

const REPLICAS: &str =
    "Exit as the command did only once this many replicas of the server have its result";
const LONG_REPLICAS: &str = "\
Exit as the command did only once this many replicas of the server have its result

If fewer confirm it in time, leaselock exits 69. The result is stored all the same; if the server is \
lost before its replicas have it, the command may run again.";

/// What `run` has, but for how the lock is held.
#[derive(Debug, Args)]
#[command(about = ABOUT, long_about = LONG_ABOUT)]
#[command(after_help = manual::ONCE, after_long_help = manual::with_exit_codes(manual::ONCE))]
#[command(
    override_usage = "leaselock once [OPTIONS] KEY [--] COMMAND [ARG]...\n       \
                            leaselock once [OPTIONS] KEY -c SCRIPT\n       \
                            leaselock once [OPTIONS] KEY --show | --forget"
)]
#[command(mut_args(hide_flags_of_run))]
#[command(mut_arg("name", |name| name.value_name("KEY")))]
#[command(mut_arg("command", |command| command))] // what is mutated becomes the last position
#[command(mut_arg("priority", |flag| flag.hide(true)))]
#[command(mut_arg("note", |flag| flag.hide(true)))]
#[command(mut_arg("min_replicas", |flag| flag.help(REPLICAS).long_help(LONG_REPLICAS)))]
pub(crate) struct OnceArgs {
    /// How long the result is kept, from 1s to 30d [default: 1d]
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    #[arg(allow_negative_numbers = true)]
    kept: Option<Duration>,

    /// How many runs may begin, those that crash included [default: any number]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    attempts: Option<u32>,

    /// Keep a failure as a result is kept, and do not run again
    #[arg(long)]
    pub(crate) keep_failures: bool,

    /// Whether the next caller runs again after a crash
    ///
    /// With refuse every caller exits 77 after a crash, until the result would not be kept any more, at
    /// least for seven days. A command that a signal ends has crashed too then. A command that exits with
    /// another code than 0 says that it may run again: with --keep-failures it never does.
    #[arg(long, value_name = "again|refuse", default_value = "again")]
    #[arg(hide_default_value = true, hide_possible_values = true)]
    on_crash: AfterCrash,

    /// Print what became of the latest run, and run nothing
    #[arg(long, conflicts_with_all = ["forget", "command", "script"])]
    pub(crate) show: bool,

    /// Forget the latest run and its result, and run nothing
    ///
    /// The next caller runs the command. Find out first whether a run that crashed has done the work. While
    /// a run holds the key, leaselock changes nothing and exits 75.
    #[arg(long, conflicts_with_all = ["command", "script"])]
    pub(crate) forget: bool,

    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AfterCrash {
    Again,
    Refuse,
}

impl OnceArgs {
    /// The second stage: refuses what only `run` can do.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.run.check_not_taken(&NOT_TAKEN)
    }

    /// True if a run that ended so may have done the work in part, and must not be followed by another.
    pub(crate) fn has_crashed(&self, exit: Exit) -> bool {
        self.on_crash == AfterCrash::Refuse && !self.keep_failures && exit.is_by_signal()
    }

    /// The work, as the library has it.
    pub(crate) fn once(&self, client: &Client, longest: Option<Duration>) -> Once {
        let run = &self.run;
        let mut once = client.once(&run.name).ttl(run.lock.ttl(longest));
        once = once.keep_failures(self.keep_failures);
        once = once.on_crash(match self.on_crash {
            AfterCrash::Again => OnCrash::Again,
            AfterCrash::Refuse => OnCrash::Refuse,
        });
        once = once.wait(run.wait.policy());
        if let Some(kept) = self.kept {
            once = once.keep_for(kept);
        }
        if let Some(attempts) = self.attempts {
            once = once.max_attempts(attempts);
        }
        if let Some(longest) = run.max_hold {
            once = once.max_hold(longest);
        }
        if let Some((count, timeout)) = run.lock.replicas(longest) {
            once = once.min_replicas(count, timeout);
        }
        once
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Verb};
    use clap::Parser as _;

    fn once(line: &str) -> OnceArgs {
        match Cli::try_parse_from(line.split(' ')).unwrap().verb {
            Verb::Once(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn it_has_the_flags_of_run_but_for_those_of_other_ways_to_hold() {
        let args =
            once("leaselock once --kept 2h --attempts 3 --on-crash refuse -w 3 job -- date -u");
        assert_eq!(args.check(), Ok(()));
        assert_eq!(args.run.plan(None).unwrap().arguments, ["-u"]);
        assert_eq!(
            (args.attempts, args.on_crash),
            (Some(3), AfterCrash::Refuse)
        );
        for wrong in [
            "-s",
            "--also other",
            "--permits 3",
            "--like guide",
            "--protocol redisson",
            "--priority 3",
            "--note month-end",
        ] {
            let refused = once(&format!("leaselock once {wrong} job date")).check();
            assert!(refused.unwrap_err().contains("or use run"), "{wrong}");
        }
    }
}
