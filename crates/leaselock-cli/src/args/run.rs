//! The arguments of `run`, and what follows from them together.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Args, ValueHint};
use leaselock::interop::Protocol;
use leaselock::satellite::span;
use rustix::process::Signal;

use super::lease::{LockArgs, WaitArgs};
use super::mode::{Mode, ModeArgs, check_also};
use crate::guardian::Plan;
use crate::{duration, manual, regular_file, signal_name};

/// Run a command while holding a lock
///
/// Queues for the lock, runs the command, and releases the lock when the command ends. The exit
/// code is the command's own. The lease is lost when, for example, the store does not reply for
/// too long: then leaselock ends the command before another holder can acquire the lock. If an
/// ancestor of this process holds the lock, the wait could never end: leaselock exits 75 at once.
///
/// The command's environment has LEASELOCK_NAME, LEASELOCK_FENCE and LEASELOCK_TTL_MS. The fence
/// grows with every holder. Pass it to the resource that the lock protects, so that the resource
/// can reject a late write of an earlier holder.
#[derive(Debug, Args)]
#[command(after_help = manual::RUN, after_long_help = manual::with_exit_codes(manual::RUN_LONG))]
#[command(
    override_usage = "leaselock run [OPTIONS] NAME [--] COMMAND [ARG]...\n       \
                            leaselock run [OPTIONS] NAME -c SCRIPT"
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    /// Run SCRIPT with $SHELL -c instead of a command
    ///
    /// With /bin/sh when SHELL is not set.
    #[arg(
        short = 'c',
        long = "command",
        value_name = "SCRIPT",
        conflicts_with = "command"
    )]
    script: Option<OsString>,

    /// Do not let the command inherit the lock
    ///
    /// In a folder the command keeps the lock as long as it runs, even if leaselock is killed.
    /// With this flag the guardian ends the command instead.
    #[arg(short = 'o', long, hide_short_help = true)]
    pub(crate) close: bool,

    /// Keep LEASELOCK_URL in the command's environment although it has a password
    ///
    /// By default leaselock removes it, so that the command cannot leak it. A `leaselock` that the
    /// command runs needs it, or a --url of its own.
    #[arg(long, hide_short_help = true)]
    pub(crate) keep_url: bool,

    /// Send --signal this long before a lease expires
    ///
    /// Processes of the job that still run shortly before the lease expires get SIGKILL. Must be less
    /// than half the ttl. Default: a fifth of the ttl, at most 2s.
    #[arg(short, long, value_name = "DUR", value_parser = duration::parse)]
    #[arg(allow_negative_numbers = true)]
    kill_after: Option<Duration>,

    /// The signal that asks the command to end when its lease is lost or about to expire
    #[arg(long, value_name = "SIG", default_value = "TERM", value_parser = signal_name::parse)]
    #[arg(hide_short_help = true)]
    signal: Signal,

    #[command(flatten)]
    pub(crate) mode: ModeArgs,

    /// Hold the lock of this name too; may be given several times
    ///
    /// The command runs while all of them are held, up to 100 in all. Their order does not matter: two
    /// runs that name the same locks in another order do not deadlock. The command's environment
    /// has LEASELOCK_FENCES too: for each name a line with its fence, a space and the name.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub(crate) also: Vec<String>,

    #[command(flatten)]
    pub(crate) lock: LockArgs,

    /// Release the lock after this long in any case
    ///
    /// leaselock does not renew the lease beyond it, and ends the command as if the lease were lost.
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) max_hold: Option<Duration>,

    /// Write what became of the run to this file, for the textfile collector of node_exporter
    ///
    /// At the start of the command and at its end, also when there was no lock. The metrics are
    /// leaselock_run_start_time_seconds, _end_time_seconds, _wait_seconds, _duration_seconds and
    /// _exit_code. The name should end in .prom, and each lock needs a file of its own.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub(crate) textfile: Option<PathBuf>,

    /// How the other programs acquire this lock, on a Redis or Valkey server
    ///
    /// One of native, setnx-getset, setex-renamenx, watch-multi, setnx-pexpire, python-redis-lock,
    /// redisson. With setnx-getset, setex-renamenx and watch-multi there is no renewal:
    /// the command must end within the ttl.
    #[arg(
        long,
        value_name = "PROTOCOL",
        default_value_t,
        hide_default_value = true,
        hide_short_help = true
    )]
    pub(crate) protocol: Protocol,

    /// Name of the lock, for example nightly-report
    #[arg(hide_short_help = true)]
    pub(crate) name: String,

    /// The command and its arguments, passed on byte for byte and without a shell
    #[arg(trailing_var_arg = true, hide_short_help = true)]
    command: Vec<OsString>,
}

/// What `run` does, by all its flags together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunPlan {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) mode: Mode,
    /// What the guardian knows from its start.
    pub(crate) guardian: Plan,
}

/// Why a verb that runs a command in a way of its own does not take certain flags of `run`.
pub(crate) struct NotTaken {
    pub(crate) other_libraries: &'static str,
    pub(crate) other_modes: &'static str,
    pub(crate) several_names: &'static str,
    /// `None` if the verb takes these flags.
    pub(crate) queue_and_note: Option<&'static str>,
}

/// Leaves the flags that only `run` takes, and what others say of them, out of the help of another verb.
pub(crate) fn hide_flags_of_run(flag: Arg) -> Arg {
    const ONLY_RUN: [&str; 6] = ["also", "shared", "permits", "take", "preset", "protocol"];
    const LONG_TTL: &str = "\
How soon the lock expires when its holder dies

leaselock renews the lease before it expires. From 100ms to 30d. Default: 10s, and at most --strict.";
    let is_hidden = flag.is_hide_set() || ONLY_RUN.contains(&flag.get_id().as_str());
    let flag = flag.hide(is_hidden);
    match flag.get_id().as_str() {
        "ttl" => flag.long_help(LONG_TTL),
        _ => flag,
    }
}

/// With a shorter ttl the guardian would kill a job during its start.
const SHORTEST_TTL: Duration = Duration::from_millis(100);

/// What the flags about times say together; what they cannot do is refused, with what would be right.
pub(super) fn guardian_plan(
    ttl: Duration,
    kill_after: Option<Duration>,
    max_hold: Option<Duration>,
    signal: Signal,
) -> Result<Plan, String> {
    if ttl < SHORTEST_TTL {
        return Err(format!(
            "--ttl: {} leaves no time to end the work before the lease ends; give 100ms or more",
            span(ttl)
        ));
    }
    let kill_after = kill_after.unwrap_or_else(|| Duration::from_secs(2).min(ttl / 5));
    if kill_after >= ttl / 2 {
        return Err(format!(
            "--kill-after: {} is half the ttl of {} or more; give less, or a longer --ttl",
            span(kill_after),
            span(ttl)
        ));
    }
    if let Some(longest) = max_hold.filter(|longest| *longest < ttl) {
        return Err(format!(
            "--max-hold: {} is shorter than the ttl of {}; give as much or more, or a shorter --ttl",
            span(longest),
            span(ttl)
        ));
    }
    Ok(Plan {
        ttl,
        kill_after,
        signal,
    })
}

impl RunArgs {
    /// The protocol that was asked for, or that of the library of --like.
    pub(crate) fn effective_protocol(&self) -> Protocol {
        match (self.protocol, self.lock.like.preset) {
            (Protocol::Native, Some(preset)) => preset.protocol(),
            (protocol, _) => protocol,
        }
    }

    /// Whether that protocol has no renewal.
    pub(crate) fn is_never_renewed(&self) -> bool {
        matches!(
            self.effective_protocol(),
            Protocol::SetnxGetset | Protocol::SetexRenamenx { .. } | Protocol::WatchMulti
        )
    }

    /// The second stage: refuses contradictions, with a sentence about what would be right.
    /// `longest` is the limit of the store for ttls.
    pub(crate) fn plan(&self, longest: Option<Duration>) -> Result<RunPlan, String> {
        let mode = self.mode.mode(&self.lock, self.protocol)?;
        check_also(&self.also, mode, &self.lock, self.protocol)?;
        let ttl = self.lock.ttl(longest);
        let guardian = guardian_plan(ttl, self.kill_after, self.max_hold, self.signal)?;
        if let Some(file) = &self.textfile {
            regular_file::target(file).map_err(|why| {
                format!(
                    "--textfile: {} {why}; name one that a rename may replace",
                    file.display()
                )
            })?;
        }
        let (program, arguments) = self
            .program_and_arguments()
            .ok_or("say what to run: `-- COMMAND` after the name, or `-c SCRIPT`")?;
        Ok(RunPlan {
            program,
            arguments,
            mode,
            guardian,
        })
    }

    /// Refuses the flags that the verb does not take, with its reasons.
    pub(crate) fn check_not_taken(&self, why: &NotTaken) -> Result<(), String> {
        let lock = &self.lock;
        let is_native = self.effective_protocol() == Protocol::Native && lock.like.preset.is_none();
        let queue_and_note = lock.priority != 0 || lock.note.is_some();
        let (flags, why) = if !is_native {
            ("--like and --protocol", why.other_libraries)
        } else if !self.mode.is_alone() {
            ("--shared, --permits and --take", why.other_modes)
        } else if !self.also.is_empty() {
            ("--also", why.several_names)
        } else if let Some(why) = why.queue_and_note.filter(|_| queue_and_note) {
            ("--priority and --note", why)
        } else {
            return Ok(());
        };
        Err(format!("{flags}: {why}; leave them out, or use run"))
    }

    pub(super) fn program_and_arguments(&self) -> Option<(OsString, Vec<OsString>)> {
        if let Some(script) = &self.script {
            let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
            return Some((
                shell.unwrap_or("/bin/sh".into()),
                vec!["-c".into(), script.clone()],
            ));
        }
        let (program, arguments) = self.command.split_first()?;
        Some((program.clone(), arguments.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Verb};
    use crate::exit::Exit;
    use clap::Parser as _;

    fn run(line: &str) -> RunArgs {
        match Cli::try_parse_from(line.split(' ')).unwrap().verb {
            Verb::Run(run) => run,
            other => panic!("{other:?}"),
        }
    }

    fn words(line: &str) -> Vec<String> {
        let plan = run(line).plan(None).unwrap();
        let words = std::iter::once(plan.program).chain(plan.arguments);
        words.map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn everything_after_the_name_belongs_to_the_command() {
        assert_eq!(words("leaselock run job date -u"), ["date", "-u"]);
        assert_eq!(words("leaselock run job -- date -u"), ["date", "-u"]);
        assert_eq!(
            words("leaselock run -n job sh -n -v --json"),
            ["sh", "-n", "-v", "--json"]
        );
        assert_eq!(words("leaselock run job env -- -x"), ["env", "--", "-x"]);
        assert_eq!(words("leaselock run job -n date -n"), ["date", "-n"]);
        assert!(run("leaselock run job -n date -n").wait.nonblock);
    }

    #[test]
    fn a_mistyped_flag_does_not_become_the_command() {
        assert!(Cli::try_parse_from(["leaselock", "run", "job", "-X", "date"]).is_err());
    }

    #[test]
    fn a_script_goes_to_a_shell_and_stands_in_place_of_a_command() {
        let line = [
            "leaselock",
            "run",
            "job",
            "-c",
            "echo $LEASELOCK_FENCE; exit 3",
        ];
        let Verb::Run(args) = Cli::try_parse_from(line).unwrap().verb else {
            panic!()
        };
        assert_eq!(
            args.plan(None).unwrap().arguments,
            ["-c", "echo $LEASELOCK_FENCE; exit 3"]
        );
        assert!(Cli::try_parse_from(line.iter().chain(&["--", "date"])).is_err());
    }

    #[test]
    fn without_a_command_there_is_nothing_to_run() {
        let refusal = run("leaselock run job").plan(None).unwrap_err();
        assert!(refusal.contains("`-- COMMAND` after the name"), "{refusal}");
    }

    #[test]
    fn arguments_need_not_be_text() {
        use std::os::unix::ffi::OsStringExt as _;
        let odd = OsString::from_vec(b"a\xffb".to_vec());
        let line = ["leaselock", "run", "job", "echo"].map(OsString::from);
        let cli = Cli::try_parse_from(line.into_iter().chain([odd.clone()])).unwrap();
        let Verb::Run(args) = cli.verb else { panic!() };
        assert_eq!(args.plan(None).unwrap().arguments, [odd]);
    }

    #[test]
    fn kill_after_is_a_fifth_of_the_ttl_and_two_seconds_at_most() {
        for (ttl, expected) in [("100ms", 20), ("3s", 600), ("10s", 2_000), ("1h", 2_000)] {
            let plan = run(&format!("leaselock run --ttl {ttl} job true"))
                .plan(None)
                .unwrap();
            assert_eq!(plan.guardian.kill_after, Duration::from_millis(expected));
        }
    }

    #[test]
    fn a_library_brings_its_ttl_and_a_flag_goes_before_it() {
        for (flags, expected) in [
            ("--like guide", 30_000),
            ("--like redis-py", 10_000),
            ("--like guide --ttl 3s", 3_000),
        ] {
            let plan = run(&format!("leaselock run {flags} job true"))
                .plan(None)
                .unwrap();
            assert_eq!(plan.guardian.ttl, Duration::from_millis(expected));
        }
    }

    #[test]
    fn a_ttl_that_nobody_asked_for_is_no_longer_than_the_store_allows() {
        let longest = Some(Duration::from_millis(4_500));
        for (flags, expected) in [
            ("-n", 4_500),
            ("--like redsync", 4_500),
            ("--like guide", 4_000),
            ("--ttl 20s", 20_000),
            ("--ttl 3s", 3_000),
        ] {
            let plan = run(&format!("leaselock run {flags} job true")).plan(longest);
            let ttl = plan.unwrap().guardian.ttl;
            assert_eq!(ttl, Duration::from_millis(expected), "{flags}");
        }
    }

    #[test]
    fn half_the_ttl_or_more_is_refused_as_kill_after() {
        let with =
            |kill_after: &str| run(&format!("leaselock run -k {kill_after} job true")).plan(None);
        assert!(with("4.999").is_ok());
        assert!(with("0").is_ok());
        let refusal = with("5").unwrap_err();
        assert_eq!(
            refusal,
            "--kill-after: 5 s is half the ttl of 10 s or more; give less, or a longer --ttl"
        );
    }

    #[test]
    fn what_run_cannot_do_is_refused_with_what_would_be_right() {
        let short = run("leaselock run --ttl 99ms job true")
            .plan(None)
            .unwrap_err();
        assert!(short.contains("give 100ms or more"), "{short}");
    }

    #[test]
    fn the_lock_is_held_alone_beside_readers_or_by_permits() {
        let mode = |flags: &str| {
            let line = format!("leaselock run{flags} job true");
            run(&line).plan(None).map(|plan| plan.mode)
        };
        assert_eq!(mode(""), Ok(Mode::Exclusive));
        assert_eq!(mode(" -x"), Ok(Mode::Exclusive));
        assert_eq!(mode(" -s"), Ok(Mode::Shared));
        let permits = |take, total| Ok(Mode::Permits { take, total });
        assert_eq!(mode(" --permits 4"), permits(1, 4));
        assert_eq!(mode(" --permits 4 --take 4"), permits(4, 4));
        for (flags, right) in [
            (" --take 2", "give --permits N too, with N at least 2"),
            (" -s --take 2", "give --permits N too"),
            (" -s --permits 2", "give one of the two"),
            (" --permits 0", "give 1 or more"),
            (" --permits 3 --take 0", "give 1 or more"),
            (
                " --permits 3 --take 4",
                "give at most 3, or a larger --permits",
            ),
            (" -s --like redis-py", "--shared and --like"),
            (
                " --permits 2 --protocol redisson",
                "--permits and --protocol",
            ),
            (" -s --note x", "leave --note out"),
        ] {
            let refusal = mode(flags).unwrap_err();
            assert!(refusal.contains(right), "{flags}: {refusal}");
        }
        assert!(Cli::try_parse_from("leaselock run -s -x job true".split(' ')).is_err());
    }

    #[test]
    fn the_busy_code_is_any_that_a_process_can_give() {
        assert_eq!(run("leaselock run -E 0 job true").wait.busy(), Exit::OK);
        assert_eq!(run("leaselock run job true").wait.busy(), Exit::BUSY);
    }
}
