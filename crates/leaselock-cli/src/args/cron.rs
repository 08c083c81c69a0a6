//! The arguments of the verb for schedules.

use std::time::Duration;

use clap::{Args, ValueEnum};
use leaselock::Client;
use leaselock::cron::{Cron, Overlap};
use leaselock::options::OnCrash;
use leaselock::satellite::span;
use leaselock_cron::{CatchUp, Schedule};

use super::run::{NotTaken, RunArgs, hide_flags_of_run};
use crate::exit::Exit;
use crate::{duration, manual};

const ABOUT: &str = "Run a command at the ticks of a schedule, on one host of many";
const LONG_ABOUT: &str = "\
Run a command at the ticks of a schedule, on one host of many

A service: start it on every host, with the same schedule and name. Each tick is run by one host, at \
most once, when it is due by the clock of the store. A tick that comes while the command still runs is \
left out. A command that fails has run: leaselock says so, and the next tick comes as usual. A store \
that does not reply is asked again.

SPEC has five fields, minute hour day-of-month month day-of-week, or six with a second in front, or is \
@hourly, @daily, @weekly, @monthly or @yearly. The zone is UTC unless --tz names one.

The name is that of a lock, which is held while the command runs. The command's environment is that of \
run, and has LEASELOCK_TICK too: when the run was due. A signal that asks for an end is passed on to the \
command, and ends the service; the exit code is then that of the command.";

const REPLICAS: &str = "Run at a tick only if this many replicas of the server have its claim";
const LONG_REPLICAS: &str = "\
Run at a tick only if this many replicas of the server have its claim

If fewer confirm it in time, leaselock takes the claim back, says so, and asks again.";

const NOT_TAKEN: NotTaken = NotTaken {
    other_libraries: "other libraries know no ticks",
    other_modes: "one runs at a time",
    several_names: "a schedule has one name",
    queue_and_note: Some("no tick waits in a queue, and a run has no note"),
};

/// Below this a slow network leaves out ticks without a message.
const LATE_MIN: Duration = Duration::from_secs(1);

/// What `run` has, but for how the lock is held.
#[derive(Debug, Args)]
#[command(about = ABOUT, long_about = LONG_ABOUT)]
#[command(after_help = manual::CRON, after_long_help = manual::with_exit_codes(manual::CRON))]
#[command(
    override_usage = "leaselock cron [OPTIONS] SPEC NAME [--] COMMAND [ARG]...\n       \
                            leaselock cron [OPTIONS] SPEC NAME -c SCRIPT\n       \
                            leaselock cron [OPTIONS] SPEC NAME --show\n       \
                            leaselock cron [OPTIONS] SPEC --next N"
)]
#[command(mut_args(hide_flags_of_run))]
#[command(mut_arg("priority", |flag| flag.hide(true)))]
#[command(mut_arg("note", |flag| flag.hide(true)))]
#[command(mut_arg("min_replicas", |flag| flag.help(REPLICAS).long_help(LONG_REPLICAS)))]
#[command(mut_arg("nonblock", |flag| flag.hide(true)))]
#[command(mut_arg("wait", |flag| flag.hide(true)))]
#[command(mut_arg("busy_exit_code", |flag| flag.hide(true)))]
#[command(mut_arg("max_hold", |flag| flag.visible_alias("at-most")))]
#[command(mut_arg("name", |name| name.required(false).default_value("").hide_default_value(true)))]
#[command(mut_arg("command", |command| command))] // what is mutated becomes the last position
pub(crate) struct CronArgs {
    /// The schedule, for example '30 2 * * *'
    #[arg(value_name = "SPEC", hide_short_help = true)]
    spec: String,

    /// The time zone, for example Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,

    /// How long after its time a run may begin, at least 1s [default: 60s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    #[arg(allow_negative_numbers = true)]
    late: Option<Duration>,

    /// What becomes of ticks that no host has run in time
    ///
    /// By default they are left out. With latest the latest of them runs, with all each of them does, the
    /// latest 100 at most. The first start has no past.
    #[arg(long, value_name = "none|latest|all", default_value = "none")]
    #[arg(hide_default_value = true, hide_possible_values = true)]
    catch_up: Missed,

    /// Run a tick again whose run was killed or has lost its lease
    ///
    /// A command that a signal ends was killed, and so was one that does not exit 0 when the service is told
    /// to stop. Without it a tick is run at most once.
    #[arg(long)]
    again: bool,

    /// What becomes of a tick that comes while the lock is held
    ///
    /// By default all hosts leave it out. With wait it runs when the lock is free, up to --late after its
    /// time.
    #[arg(long, value_name = "skip|wait", default_value = "skip")]
    #[arg(hide_default_value = true, hide_possible_values = true)]
    overlap: Meanwhile,

    /// Print the next N ticks, and run nothing; needs no store
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) next: Option<u16>,

    /// Print the latest tick and what became of it, and run nothing
    #[arg(long, conflicts_with_all = ["next", "command", "script"])]
    pub(crate) show: bool,

    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Missed {
    None,
    Latest,
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Meanwhile {
    Skip,
    Wait,
}

impl CronArgs {
    /// The second stage: refuses what only `run` can do.
    pub(crate) fn check(&self) -> Result<(), String> {
        let run = &self.run;
        if run.name.is_empty() || run.program_and_arguments().is_none() {
            let usage = "leaselock cron SPEC NAME -- COMMAND, or leaselock cron SPEC --next N";
            return Err(format!("say which name and what to run: {usage}"));
        }
        run.check_not_taken(&NOT_TAKEN)?;
        if let Some(late) = self.late.filter(|late| *late < LATE_MIN) {
            let late = span(late);
            return Err(format!(
                "--late: a run begins a moment after its time, so {late} would leave out each tick; give at least 1s"
            ));
        }
        if run.wait.nonblock || run.wait.wait.is_some() || run.wait.busy() != Exit::BUSY {
            let why = "-n, -w and -E: a schedule never ends by itself; see --overlap and --late";
            return Err(format!("{why}; leave them out, or use run"));
        }
        Ok(())
    }

    /// True if a run that ended so did not finish, and its tick runs again. A command that was told to stop, with the
    /// service, has finished only if it says so.
    pub(crate) fn has_crashed(&self, exit: Exit, is_to_end: bool) -> bool {
        self.again && (exit.is_by_signal() || is_to_end && exit != Exit::OK)
    }

    /// The name for `--show`.
    pub(crate) fn name_to_show(&self) -> Result<&str, &'static str> {
        match self.run.name.as_str() {
            "" => Err("say which name: leaselock cron SPEC NAME --show"),
            name => Ok(name),
        }
    }

    pub(crate) fn zone(&self) -> &str {
        self.tz.as_deref().unwrap_or("UTC")
    }

    pub(crate) fn schedule(&self) -> Result<Schedule, String> {
        // A shell takes an expression without quotes apart.
        let is_part = !self.spec.contains(' ') && !self.spec.starts_with('@');
        let hint = if is_part {
            "; put it in quotes: '30 2 * * *'"
        } else {
            ""
        };
        let schedule = self.spec.parse::<Schedule>();
        let schedule = schedule.map_err(|wrong| format!("{wrong}{hint}"))?;
        let in_zone = schedule.tz(self.zone());
        in_zone.map_err(|wrong| format!("--tz: {wrong}"))
    }

    pub(crate) fn catch_up(&self) -> CatchUp {
        match self.catch_up {
            Missed::None => CatchUp::None,
            Missed::Latest => CatchUp::Latest,
            Missed::All => CatchUp::All,
        }
    }

    /// The ticks, as the library has them.
    pub(crate) fn cron(&self, client: &Client, longest: Option<Duration>) -> Cron {
        let run = &self.run;
        let cron = client.cron(&run.name).ttl(run.lock.ttl(longest));
        let on_crash = match self.again {
            true => OnCrash::Again,
            false => OnCrash::Refuse,
        };
        let mut cron = cron.on_crash(on_crash).overlap(match self.overlap {
            Meanwhile::Skip => Overlap::Skip,
            Meanwhile::Wait => Overlap::Wait,
        });
        if let Some(late) = self.late {
            cron = cron.start_within(late);
        }
        if let Some(longest) = run.max_hold {
            cron = cron.max_hold(longest);
        }
        if let Some((count, timeout)) = run.lock.replicas(longest) {
            cron = cron.min_replicas(count, timeout);
        }
        cron
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Verb};
    use clap::Parser as _;

    fn cron(flags: &[&str], rest: &[&str]) -> CronArgs {
        let line = [&["leaselock", "cron"], flags, rest].concat();
        match Cli::try_parse_from(line).unwrap().verb {
            Verb::Cron(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn it_has_the_flags_of_run_but_for_those_of_waiting_and_of_other_ways_to_hold() {
        let rest = ["0 2 * * *", "job", "--", "date", "-u"];
        let args = cron(&["--tz", "Europe/Berlin", "--at-most", "1h"], &rest);
        assert_eq!(args.check(), Ok(()));
        assert_eq!(args.run.plan(None).unwrap().arguments, ["-u"]);
        assert_eq!(args.run.max_hold, Some(Duration::from_secs(3600)));
        assert_eq!(
            (args.zone(), args.catch_up()),
            ("Europe/Berlin", CatchUp::None)
        );
        for wrong in [
            &["-s"][..],
            &["--also", "other"],
            &["--permits", "3"],
            &["--like", "guide"],
            &["--protocol", "redisson"],
            &["--priority", "3"],
            &["--note", "month-end"],
            &["-n"],
            &["-w", "3"],
            &["-E", "3"],
        ] {
            let refused = cron(wrong, &rest).check();
            assert!(refused.unwrap_err().contains("or use run"), "{wrong:?}");
        }
        let nameless = cron(&["--next", "3"], &["@daily"]);
        assert_eq!(nameless.next, Some(3));
        assert!(nameless.check().unwrap_err().contains("SPEC NAME"));
    }
}
