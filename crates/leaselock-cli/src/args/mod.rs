//! The command line: what the user may write, each flag with a text that says what it does.
//!
//! This is the first of two stages. Here is validated text that has touched nothing; the second
//! stage ([`run::RunPlan`]) works out what follows from several flags together. Help, the manual
//! page and the completions come from the same definitions.

pub(crate) mod bench;
pub(crate) mod lease;
pub(crate) mod like;
pub(crate) mod look;
pub(crate) mod run;
pub(crate) mod strict;
pub(crate) mod tls;
pub(crate) mod usage;

#[cfg(test)]
mod misplaced_tests;

use std::ffi::OsString;
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::error::ErrorKind;
use clap::{
    ArgAction, Args, Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
};

use crate::{duration, secrets};

/// Run a job under a lock that ends by itself: a lease.
///
/// The lock lives in a folder of files on this machine, or on a Redis or Valkey server when
/// --url or LEASELOCK_URL names one. Whoever waits is served in the order of arrival.
#[derive(Debug, Parser)]
#[command(name = "leaselock", version, after_long_help = crate::exit::HELP)]
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
        match secrets::misplaced(&command, &found) {
            Some(wrong) => Err(clap::Error::raw(ErrorKind::ValueValidation, wrong + "\n")),
            None => Cli::from_arg_matches(&found).map_err(|error| error.format(&mut command)),
        }
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
        Some(Cli {
            globals: Globals::from_arg_matches(&found).ok()?,
            verb: Verb::Run(run::RunArgs::from_arg_matches(found.subcommand_matches("run")?).ok()?),
        })
    }
}

/// What may stand before or after the verb.
#[derive(Debug, Args)]
pub(crate) struct Globals {
    /// Where the locks live: file: (default), file:///dir, redis://host, rediss://host,
    /// redis+unix:///path, redis+sentinel://host,host/service, redis+cluster://host,host
    ///
    /// Without it the locks lie in ~/.local/state/leaselock (/var/lib/leaselock for root), and
    /// exclude only copies run by the same user on this machine. `file:///dir` shares them between users, `redis://…` between
    /// machines. Three or more servers, an odd number, make a quorum: repeat the option, or name them in
    /// LEASELOCK_URL with spaces between them. A password is better given in LEASELOCK_URL, because
    /// `ps` shows arguments.
    #[arg(long, global = true, value_name = "URL", env = "LEASELOCK_URL", action = ArgAction::Append)]
    #[arg(hide_env_values = true, help_heading = "Global options")]
    url: Vec<String>,

    /// What stands in front of every name on the store, and of the keys and channels of clients
    ///
    /// As in the programs that share the locks, for example `app:`. Names are given and shown
    /// without it. A user who may touch `app:*` only needs it.
    #[arg(
        long,
        global = true,
        value_name = "TEXT",
        env = "LEASELOCK_PREFIX",
        hide_env_values = true
    )]
    #[arg(
        default_value = "",
        hide_default_value = true,
        help_heading = "Global options"
    )]
    pub(crate) prefix: String,

    /// Quorum: the longest --ttl that anybody uses on these servers; all must agree on it
    /// [default: 1m]
    ///
    /// So long a server stays out of votes after it has come up, because it may have forgotten what
    /// it granted.
    #[arg(long, global = true, value_name = "DUR", value_parser = crate::duration::parse)]
    #[arg(
        env = "LEASELOCK_LONGEST_TTL",
        hide_env_values = true,
        help_heading = "Global options"
    )]
    pub(crate) longest_ttl: Option<std::time::Duration>,

    /// Quorum: let servers vote at once after a restart; only when each keeps every write before it
    /// answers (appendfsync always)
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) durable_nodes: bool,

    #[command(flatten)]
    pub(crate) tls: tls::TlsArgs,

    /// Strict mode: the longest ttl that anybody has on this server; everybody must say the same
    ///
    /// After a restart or failover of the server nobody new is granted until all old leases are
    /// over: this long, 1 % of it and 2 s. Whoever waits goes on waiting; what ends sooner exits
    /// 69. See `leaselock strict`.
    #[arg(
        long,
        global = true,
        value_name = "DUR",
        env = "LEASELOCK_STRICT",
        hide_env_values = true
    )]
    #[arg(value_parser = duration::parse, help_heading = "Global options")]
    pub(crate) strict: Option<Duration>,

    /// Call scripts as functions that an administrator has loaded with `functions load`
    ///
    /// For servers on which a user may not send scripts. Needs Redis 7 or later, or Valkey.
    #[arg(
        long,
        global = true,
        env = "LEASELOCK_FUNCTIONS",
        hide_env_values = true,
        help_heading = "Global options"
    )]
    #[arg(value_parser = FalseyValueParser::new())]
    pub(crate) functions: bool,

    /// Print one JSON object a line on standard output
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,

    /// Tell on standard error how a wait goes on and what becomes of the lock; -vv for the library's events
    ///
    /// Queued behind whom, once each minute, store does not answer, acquired after how long, released. -vvv shows the
    /// events of what the library is built on too. With --json each line is an object.
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Global options")]
    pub(crate) verbose: u8,

    /// Say nothing on standard error but errors
    #[arg(
        short,
        long,
        global = true,
        conflicts_with = "verbose",
        help_heading = "Global options"
    )]
    pub(crate) quiet: bool,
}

impl Globals {
    /// The store's URL, the first of several; an empty one, as from `LEASELOCK_URL=`, counts as not given.
    pub(crate) fn url(&self) -> &str {
        self.urls().first().copied().unwrap_or("file:")
    }

    /// The longest ttl that the store allows, when it has such a limit.
    pub(crate) fn longest(&self) -> Option<Duration> {
        match self.urls().len() {
            0 | 1 => self.strict,
            _ => Some(self.longest_ttl.unwrap_or(leaselock::LONGEST_TTL)),
        }
    }

    /// All URLs that were given. Those of servers have no spaces in them, and paths may.
    pub(crate) fn urls(&self) -> Vec<&str> {
        self.url.iter().flat_map(|url| parts(url)).collect()
    }
}

fn parts(urls: &str) -> Vec<&str> {
    if urls.trim_start().starts_with("redis") {
        return urls.split_whitespace().collect();
    }
    let one = Some(urls).filter(|url| !url.is_empty());
    one.into_iter().collect()
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Run(run::RunArgs),
    Acquire(lease::AcquireArgs),
    Extend(lease::ExtendArgs),
    Release(lease::ReleaseArgs),
    Status(look::StatusArgs),
    Ls(look::LsArgs),
    Wait(look::WaitArgs),
    Break(look::BreakArgs),
    Doctor(look::DoctorArgs),
    Strict(strict::StrictArgs),
    Functions(look::FunctionsArgs),
    Bench(bench::BenchArgs),
    Completions(look::CompletionsArgs),
    Man(look::ManArgs),
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
            "leaselock run x -w 3 --why month-end --url redis://h true --json",
            "leaselock --url run run run -- run",
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
