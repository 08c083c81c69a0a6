//! The whole command line: the verbs, and how a line of words becomes one of them.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Args as _, Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use super::globals::Globals;
use super::{
    acquire, bench, count, cron, elect, hold, inspect, latch, lease, limit, log, once, permits,
    run, schedules, strict,
};
use crate::{manual, secrets};

/// Run a job under a distributed lock that expires by itself: a lease
///
/// Locks are kept in a folder on this machine, or on the Redis or Valkey server that --url or
/// LEASELOCK_URL names. Waiters are served in the order of arrival.
#[derive(Debug, Parser)]
#[command(name = "leaselock", version)]
#[command(after_help = manual::COMMAND, after_long_help = manual::with_exit_codes(manual::COMMAND))]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl Cli {
    /// Understands what the user wrote.
    pub(crate) fn understand(line: &[OsString]) -> Result<Cli, clap::Error> {
        Cli::plain_run(line).map_or_else(|| Cli::anything(line), Ok)
    }

    fn anything(line: &[OsString]) -> Result<Cli, clap::Error> {
        let mut command = Cli::command();
        let found = command.try_get_matches_from_mut(line)?;
        let wrong = |text: String| clap::Error::raw(ErrorKind::ValueValidation, text + "\n");
        if let Some(text) = secrets::misplaced(&command, &found) {
            return Err(wrong(text));
        }
        let cli = Cli::from_arg_matches(&found);
        let mut cli = cli.map_err(|error| error.format(&mut command))?;
        let settled = cli.globals.settle(&found);
        settled.map_err(|text| wrong(text.to_owned()))?;
        Ok(cli)
    }

    /// `run` is what starts thousands of times a day, and the definitions of all other verbs are half of what parsing
    /// costs. Without them a line is understood in the same way or not at all; then all of them have their say.
    fn plain_run(line: &[OsString]) -> Option<Cli> {
        line.iter().find(|word| *word == "run")?;
        let run = run::RunArgs::augment_args(Command::new("run"));
        let mut command = Globals::augment_args(Command::new("leaselock")).subcommand(run);
        let found = command.try_get_matches_from_mut(line).ok()?;
        if secrets::misplaced(&command, &found).is_some() {
            return None;
        }
        let mut globals = Globals::from_arg_matches(&found).ok()?;
        globals.settle(&found).ok()?;
        Some(Cli {
            globals,
            verb: Verb::Run(run::RunArgs::from_arg_matches(found.subcommand_matches("run")?).ok()?),
        })
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Run(run::RunArgs),
    Hold(hold::HoldArgs),
    Acquire(acquire::AcquireArgs),
    Extend(lease::ExtendArgs),
    Release(lease::ReleaseArgs),
    Status(inspect::StatusArgs),
    #[command(alias = "list")]
    Ls(inspect::LsArgs),
    #[cfg(feature = "top")]
    Top(super::top::TopArgs),
    Blame(inspect::BlameArgs),
    Wait(inspect::WaitArgs),
    Break(inspect::BreakArgs),
    Log(log::LogArgs),
    Permits(permits::PermitsArgs),
    Elect(elect::ElectArgs),
    Leader(elect::LeaderArgs),
    Once(once::OnceArgs),
    Cron(cron::CronArgs),
    Schedules(schedules::SchedulesArgs),
    Latch(latch::LatchArgs),
    Limit(limit::LimitArgs),
    Count(count::CountArgs),
    Doctor(inspect::DoctorArgs),
    Strict(strict::StrictArgs),
    Functions(inspect::FunctionsArgs),
    Bench(bench::BenchArgs),
    Completions(inspect::CompletionsArgs),
    Man(inspect::ManArgs),
}

impl Verb {
    /// False if nothing is asked of a store, so that it does not matter which one was given.
    pub(crate) fn needs_store(&self) -> bool {
        match self {
            Verb::Completions(_) | Verb::Man(_) => false,
            Verb::Cron(args) => args.next.is_none(),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split(' '))
    }

    #[test]
    fn the_definition_contradicts_itself_nowhere() {
        Cli::command().debug_assert();
    }

    #[test]
    fn global_flags_stand_before_or_after_the_verb() {
        for line in [
            "leaselock --url redis://h --json -v -v status a",
            "leaselock status a --url redis://h --json -vv",
            "leaselock --json -v status -v --url redis://h a",
        ] {
            let globals = parse(line).unwrap().globals;
            assert_eq!((globals.url(), globals.json), ("redis://h", true), "{line}");
        }
        assert!(parse("leaselock status a -q").unwrap().globals.quiet);
        assert!(parse("leaselock -q status a").unwrap().globals.quiet);
    }

    #[test]
    fn run_means_the_same_with_and_without_the_other_verbs() {
        for line in [
            "leaselock run x -- true",
            "leaselock --url file:///d -v run -n x -o -k 1s --ttl 9s -- sh -c run",
            "leaselock run x -w 3 --note month-end --url redis://h true --json",
            "leaselock --url run run run -- run",
            "leaselock --url-file run run --textfile run run -- run",
            "leaselock run -q -E 3 --max-hold 1h --priority -2 x -c true",
            "leaselock run --like guide x -- true --like redsync",
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let (plain, whole) = (Cli::plain_run(&words).unwrap(), parse(line).unwrap());
            assert_eq!(format!("{plain:?}"), format!("{whole:?}"), "{line}");
        }
        for line in [
            "leaselock status run",
            "leaselock --url run status x",
            "leaselock run --help",
            "leaselock run x -n -w 1 true",
            "leaselock run --like nobody x true",
            "leaselock run --url-file f --url file: x true",
            "leaselock help run",
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert!(Cli::plain_run(&words).is_none(), "{line}");
        }
    }

    #[test]
    fn several_urls_are_one_each_or_a_list_with_spaces_and_a_folder_may_have_some_in_it() {
        let given = |urls: &[&str]| {
            let mut line = vec!["leaselock", "status", "a"];
            line.extend(urls.iter().flat_map(|url| ["--url", *url]));
            let globals = Cli::try_parse_from(line).unwrap().globals;
            globals
                .urls()
                .into_iter()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            given(&["redis://a", "redis://b"]),
            ["redis://a", "redis://b"]
        );
        assert_eq!(given(&["redis://a  rediss://b redis://c"]).len(), 3);
        assert_eq!(given(&["valkey://a valkeys://b redis://c"]).len(), 3);
        assert_eq!(given(&["file:///my locks"]), ["file:///my locks"]);
        assert_eq!(given(&[""]).len(), 0);
    }

    #[test]
    fn verbose_counts() {
        assert_eq!(parse("leaselock ls -vvv").unwrap().globals.verbose, 3);
    }

    #[test]
    fn every_flag_and_every_verb_has_help() {
        for verb in std::iter::once(&Cli::command()).chain(Cli::command().get_subcommands()) {
            assert!(verb.get_about().is_some(), "{}", verb.get_name());
            for argument in verb.get_arguments() {
                assert!(
                    argument.get_help().is_some(),
                    "{} {}",
                    verb.get_name(),
                    argument.get_id()
                );
            }
        }
    }
}
