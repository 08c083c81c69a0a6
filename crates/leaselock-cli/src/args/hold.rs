//! The arguments of `hold`.

use std::time::Duration;

use clap::Args;
use leaselock::interop::{Preset, Protocol};
use rustix::process::Signal;

use super::elect::host_name;
use super::lease::{LockArgs, WaitArgs};
use super::mode::{Mode, ModeArgs, check_also};
use super::run::guardian_plan;
use crate::guardian::Plan;
use crate::{duration, manual, signal_name};

/// Hold a lock until standard input ends
///
/// For programs that start leaselock as a child, in any language. Queues for the lock and holds it until
/// standard input ends or has the line `release`, a signal such as TERM comes, or the process that
/// started leaselock ends, even if a fork of that process keeps the input open. Standard output has one
/// JSON object a line: queued, acquired, renewed, lost, released. After a loss the exit code is 79.
///
/// On a terminal the lock is held until Ctrl-C, with --kill until that process ends, and the text is for people.
#[derive(Debug, Args)]
#[command(after_help = manual::HOLD, after_long_help = manual::with_exit_codes(manual::HOLD))]
pub(crate) struct HoldArgs {
    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    /// End this process before another holder can acquire the lock
    ///
    /// For the program that started leaselock, or another of this user: $$ in a shell. It gets --signal
    /// when the lease is lost or leaselock is killed, and SIGKILL shortly before the lease expires.
    /// leaselock passes a signal such as TERM on to it, and holds the lock until it has ended, also when
    /// the program that started leaselock has. Processes that it started are left alone.
    #[arg(long, value_name = "PID")]
    pub(crate) kill: Option<u32>,

    /// Report the loss this long before a lease expires
    ///
    /// With --kill the time between --signal and the end of the lease. Must be less than half the ttl.
    /// Default: a fifth of the ttl, at most 2s.
    #[arg(short, long, value_name = "DUR", value_parser = duration::parse)]
    #[arg(allow_negative_numbers = true)]
    kill_after: Option<Duration>,

    /// The signal that asks the process of --kill to end
    #[arg(long, value_name = "SIG", default_value = "TERM", value_parser = signal_name::parse)]
    #[arg(requires = "kill", hide_short_help = true)]
    signal: Signal,

    #[command(flatten)]
    mode: ModeArgs,

    /// Hold the lock of this name too; may be given several times
    ///
    /// Up to 100 names in all, in any order. The event acquired has the fence of each.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub(crate) also: Vec<String>,

    /// Hold the lock as the leader of an election, as elect does
    ///
    /// The fence is the term. After a loss the exit code is 79: start it again to campaign again.
    #[arg(long, hide_short_help = true)]
    pub(crate) lead: bool,

    /// What followers read of this leader, such as its address [default: the host's name]
    #[arg(long, value_name = "VALUE", requires = "lead", hide_short_help = true)]
    value: Option<String>,

    #[command(flatten)]
    pub(crate) lock: LockArgs,

    /// Release the lock after this long in any case
    ///
    /// leaselock does not renew the lease beyond it, and reports the loss --kill-after before.
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) max_hold: Option<Duration>,

    /// Name of the lock, for example nightly-report
    pub(crate) name: String,
}

/// What `hold` does, by all its flags together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HoldPlan {
    pub(crate) mode: Mode,
    /// What followers read, if it leads.
    pub(crate) value: Option<String>,
    pub(crate) guardian: Plan,
}

impl HoldArgs {
    /// The second stage: refuses contradictions, with a sentence about what would be right.
    pub(crate) fn plan(&self, longest: Option<Duration>) -> Result<HoldPlan, String> {
        let mode = self.mode.mode(&self.lock, Protocol::Native)?;
        check_also(&self.also, mode, &self.lock, Protocol::Native)?;
        self.check_lead(mode)?;
        let ttl = self.lock.ttl(longest);
        Ok(HoldPlan {
            mode,
            value: self
                .lead
                .then(|| self.value.clone().unwrap_or_else(host_name)),
            guardian: guardian_plan(ttl, self.kill_after, self.max_hold, self.signal)?,
        })
    }

    /// How the lock is taken.
    pub(crate) fn protocol(&self) -> Protocol {
        self.lock
            .like
            .preset
            .map_or(Protocol::Native, Preset::protocol)
    }

    fn check_lead(&self, mode: Mode) -> Result<(), String> {
        let (flag, why) = match mode {
            _ if !self.lead => return Ok(()),
            Mode::Shared => ("--shared", "one leads at a time"),
            Mode::Permits { .. } => ("--permits", "one leads at a time"),
            _ if !self.also.is_empty() => ("--also", "a leader leads under one name"),
            _ if self.lock.like.preset.is_some() => ("--like", "other libraries know no leader"),
            Mode::Exclusive => return Ok(()),
        };
        Err(format!(
            "--lead and {flag}: {why}; leave one of the two out"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Verb};
    use clap::Parser as _;

    fn hold(line: &str) -> HoldArgs {
        match Cli::try_parse_from(line.split(' ')).unwrap().verb {
            Verb::Hold(hold) => hold,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn it_has_the_flags_of_run_that_are_about_the_lock() {
        let line =
            "leaselock hold -w 3 --ttl 5s --note x --priority 2 --max-hold 1h --also b -k 1s a";
        let plan = hold(line).plan(None).unwrap();
        assert_eq!(plan.mode, Mode::Exclusive);
        assert_eq!(plan.guardian.ttl, Duration::from_secs(5));
        assert_eq!(plan.guardian.kill_after, Duration::from_secs(1));
        assert_eq!(
            hold("leaselock hold -s a").plan(None).unwrap().mode,
            Mode::Shared
        );
        let leads = hold("leaselock hold --lead a").plan(None).unwrap();
        assert!(!leads.value.unwrap().is_empty());
        let leads = hold("leaselock hold --lead --value here a")
            .plan(None)
            .unwrap();
        assert_eq!(leads.value.as_deref(), Some("here"));
    }

    #[test]
    fn what_it_cannot_do_is_refused_with_what_would_be_right() {
        for (flags, right) in [
            ("--ttl 99ms", "give 100ms or more"),
            ("-k 5s", "give less, or a longer --ttl"),
            ("--max-hold 5s", "give as much or more"),
            ("--take 2", "give --permits N too"),
            ("-s --also b", "leave one of the two away"),
            ("--lead -s", "leave one of the two out"),
            ("--lead --permits 2", "leave one of the two out"),
            ("--lead --also b", "leave one of the two out"),
            ("--lead --like guide", "leave one of the two out"),
        ] {
            let refusal = hold(&format!("leaselock hold {flags} a")).plan(None);
            let refusal = refusal.unwrap_err();
            assert!(refusal.contains(right), "{flags}: {refusal}");
        }
        for alone in ["--value x", "--signal HUP"] {
            let line = format!("leaselock hold {alone} a");
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{alone}");
        }
    }
}
