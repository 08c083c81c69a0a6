//! The arguments of the verbs that inspect locks, of `break`, and of those that describe the command.

use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use clap_complete::Shell;

use leaselock::interop::Protocol;
use leaselock::{Client, Mutex};

use super::globals::Globals;
use super::like::LikeArgs;
use crate::failure::Failure;
use crate::{duration, manual};

/// Show who holds a lock, since when and for how long, and who waits for it
///
/// Exits 0 for a free lock too: `wait -n NAME` asks whether a lock is free by its exit code. On a
/// terminal, and with -v, standard error names the folder or server.
#[derive(Debug, Args)]
#[command(after_help = manual::STATUS)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) like: LikeArgs,

    /// The locks to show; without one all that are held
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
}

/// What a lock is held as, by the words of the library.
pub(crate) const KINDS: [&str; 7] = [
    "mutex",
    "read",
    "upgradable",
    "permits",
    "leader",
    "once",
    "cron",
];

/// List the locks that are held, in a table
///
/// By name; of more than 1,000 the first are in order, and the others come as the store lists
/// them, so that the first row need not wait for the last. A terminal cuts long names and then the
/// lines to its width.
#[derive(Debug, Args)]
#[command(after_help = manual::LS)]
pub(crate) struct LsArgs {
    /// Only names that match: * any text, ? one byte (an ASCII character), [a-z] one of these
    #[arg(default_value = "*")]
    pub(crate) pattern: String,

    /// Print the names alone, one a line
    #[arg(long)]
    pub(crate) names: bool,

    /// Only locks that others wait for
    #[arg(long)]
    pub(crate) contended: bool,

    /// Only locks that are held as this; several with commas between
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(KINDS))]
    pub(crate) kind: Vec<String>,

    /// At most this many; without --sort the search ends with the last of them
    #[arg(long, value_name = "N", default_value_t = usize::MAX, hide_default_value = true)]
    pub(crate) limit: usize,

    /// Find all first, and sort by this column: the longest held, the most waiters, the first to
    /// expire
    #[arg(long, value_name = "COLUMN")]
    pub(crate) sort: Option<SortColumn>,

    /// For the completions of a shell: print the names that begin with this text, those that are found
    /// at once
    #[arg(long, value_name = "TEXT", hide = true)]
    pub(crate) complete: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum SortColumn {
    Name,
    Held,
    Waiting,
    Expires,
}

/// Show who makes others wait, and for how long
///
/// One row for each client that holds what others wait for, the longest wait of all together at the
/// top. It shows this moment and no history: a wait that has ended is not in it. A wait counts from
/// when it began, though another may have held the lock then. Of several readers or holders of
/// permits each has the whole wait.
#[derive(Debug, Args)]
#[command(after_help = manual::BLAME)]
pub(crate) struct BlameArgs {
    /// Only names that match: * any text, ? one byte (an ASCII character), [a-z] one of these
    #[arg(default_value = "*")]
    pub(crate) pattern: String,

    /// At most this many holders
    #[arg(long, value_name = "N", default_value_t = usize::MAX, hide_default_value = true)]
    pub(crate) limit: usize,
}

/// Wait until a lock is free, without acquiring it
///
/// Exits 0 once the lock is free and 75 if it is still held after the wait. Another process may
/// acquire it at any moment: to do something while you hold it, use run.
#[derive(Debug, Args)]
#[command(after_help = manual::WAIT)]
pub(crate) struct WaitArgs {
    /// Do not wait: check once
    #[arg(short, long, alias = "nb", conflicts_with = "wait")]
    pub(crate) nonblock: bool,

    /// Wait at most this long [default: forever]
    #[arg(short, long, alias = "timeout", value_name = "DUR", value_parser = duration::parse)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) wait: Option<Duration>,

    #[command(flatten)]
    pub(crate) like: LikeArgs,

    /// The lock to wait for
    pub(crate) name: String,
}

/// Take a lock away from its holder, as an operator
///
/// From all holders, when several read or hold permits; --fence takes the permits of one hold alone.
/// The holder cannot renew its lease any more, and is told at its next renewal at the latest. The
/// first waiter in the queue has the lock when the holder has released it or its lease has ended.
/// With --now it has it at once, although the holder may work on: make sure that it has stopped.
/// Without --yes or --fence the command asks first; without a terminal one of the two is required.
#[derive(Debug, Args)]
#[command(after_help = manual::BREAK)]
pub(crate) struct BreakArgs {
    /// Only if this is still the holder's fence, as status shows it; does not ask
    #[arg(long, value_name = "N")]
    pub(crate) fence: Option<u64>,

    /// Break the present lease, whichever it is; does not ask
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Free the lock at once, although its holder may work on until its next renewal
    #[arg(long)]
    pub(crate) now: bool,

    /// Also if the holder uses another lock library on the same key
    #[arg(long, requires = "now")]
    pub(crate) foreign: bool,

    /// Why, for the holder and the event log; asked for on a terminal
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) why: Option<String>,

    /// How its programs acquire the lock; NAME is as for run. Those of redisson and python-redis-lock
    /// are woken
    #[arg(
        long,
        value_name = "PROTOCOL",
        default_value_t,
        hide_default_value = true,
        hide_short_help = true
    )]
    pub(crate) protocol: Protocol,

    #[command(flatten)]
    pub(crate) like: LikeArgs,

    /// The lock to break, as status shows it; with --protocol or --like as for run
    pub(crate) name: String,
}

impl BreakArgs {
    /// The protocol that was named, or that of the library of --like.
    pub(crate) fn effective_protocol(&self) -> Protocol {
        match (self.protocol, self.like.preset) {
            (Protocol::Native, Some(preset)) => preset.protocol(),
            (protocol, _) => protocol,
        }
    }

    /// The lock that `run` acquires with the same flags.
    pub(crate) fn mutex(&self, client: &Client) -> Mutex {
        let mutex = self.like.mutex(client.mutex(&self.name));
        match self.protocol {
            Protocol::Native => mutex,
            protocol => mutex.protocol(protocol),
        }
    }

    /// The name under which leaselock knows that lock.
    pub(crate) fn key(&self, client: &Client, globals: &Globals) -> Result<String, Failure> {
        match (self.protocol, self.like.preset) {
            (Protocol::Native, _) => {}
            (protocol, None) => return Ok(protocol.name_for(&self.name)?.as_str().to_owned()),
            // Two that do not fit are refused as `run` refuses them.
            (_, Some(_)) => drop(self.mutex(client).validate()?),
        }
        self.like.name(&self.name, globals)
    }
}

/// Check whether the store is fit for locks
///
/// Names the folder or server, and checks its version, persistence, eviction policy, role and
/// clock, each with advice. Checks each of several servers. Ends with what this set-up can promise
/// and what it cannot. Exits 1 if something is unfit for locks.
#[derive(Debug, Args)]
#[command(after_help = manual::DOCTOR)]
pub(crate) struct DoctorArgs {}

/// Load all scripts onto a server as functions, for users who may not send scripts
///
/// A cluster gets them on every primary, a quorum on every node. Behind Sentinels the primary gets
/// them, and its replicas copy them. Repeat it for nodes that join later.
///
/// The name of the library has the version in it, so libraries of other versions stay. The command
/// names them; FUNCTION DELETE removes them once no client uses them. The user needs the right to
/// FUNCTION LOAD. Clients use the functions with --functions.
#[derive(Debug, Args)]
pub(crate) struct FunctionsArgs {
    /// load, or print the source for FUNCTION LOAD
    pub(crate) what: FunctionsDo,
}

/// What the verb does with the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FunctionsDo {
    /// Load it, unless it is loaded
    Load,
    /// Print it, for `redis-cli -x FUNCTION LOAD`
    Print,
}

/// Print the completions for a shell
///
/// In bash, zsh and fish they complete the names of locks that are held too.
#[derive(Debug, Args)]
#[command(after_help = manual::COMPLETIONS)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

/// Print the manual page of the command or of one verb
#[derive(Debug, Args)]
#[command(after_help = manual::MAN)]
pub(crate) struct ManArgs {
    /// The verb; without it the page of the whole command
    pub(crate) verb: Option<String>,
}
