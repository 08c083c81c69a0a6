//! The arguments of the verbs that look, of the one that breaks, and of those that describe.

use std::time::Duration;

use clap::Args;
use clap_complete::Shell;

use super::like::LikeArgs;
use crate::duration;

/// Show who holds a lock, since when and for how long, and who waits for it
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) like: LikeArgs,

    /// The locks to look at
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
}

/// List the locks that are held
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// Only names that match: * any text, ? one character, [a-z] one of these
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
}

/// Wait until nobody holds a lock, without taking it
///
/// Exits 0 once the lock is free and 75 when it is still held after the wait. It may be taken
/// again at any moment: to do something while it is yours, use run.
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Do not wait: look once
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) nonblock: bool,

    /// Wait at most this long [default: for ever]
    #[arg(short, long, value_name = "DUR", value_parser = duration::parse)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) wait: Option<Duration>,

    #[command(flatten)]
    pub(crate) like: LikeArgs,

    /// The lock to wait for
    pub(crate) name: String,
}

/// Take a lock away from its holder, as an operator
///
/// The holder learns of it at its next renewal at the latest; until then it may still work, so
/// make sure that it is gone. The next in line gets the lock at once. Without --yes or --fence
/// you are asked first; where nobody can be asked, one of the two is required.
#[derive(Debug, Args)]
pub(crate) struct BreakArgs {
    /// Only when this is still the holder's fence, as status shows it; asks nothing
    #[arg(long, value_name = "N")]
    pub(crate) fence: Option<u64>,

    /// Break whatever lease is there; asks nothing
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Also when the holder uses another lock library on the same key
    #[arg(long)]
    pub(crate) foreign: bool,

    #[command(flatten)]
    pub(crate) like: LikeArgs,

    /// The lock to break
    pub(crate) name: String,
}

/// Check whether the store is fit for locks
///
/// Says which folder or server it is, its version, whether it keeps what it acknowledged, what it
/// evicts, its role and how far its clock is off, each with an advice; of several servers each.
/// Ends with sentences: what this set-up can promise and what it cannot. Exits 1 when something
/// is not fit for locks.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {}

/// Load all scripts onto a server as functions, for users who may not send scripts
///
/// With the URL of a cluster onto every primary, with several --url onto every node; with
/// Sentinels onto the primary, from which replicas have them. Repeat it for nodes that join later.
///
/// The library has the version in its name, so those of other versions stay; they are named, and
/// FUNCTION DELETE takes them away when nobody uses them. The user needs the right to FUNCTION
/// LOAD. Clients use them with --functions.
#[derive(Debug, Args)]
pub(crate) struct FunctionsArgs {
    /// load, or print: what FUNCTION LOAD would get
    pub(crate) what: FunctionsDo,
}

/// What is done with the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FunctionsDo {
    /// Load it, unless it is there
    Load,
    /// Print it, for `redis-cli -x FUNCTION LOAD`
    Print,
}

/// Print the completions for a shell
///
/// For example: leaselock completions bash > ~/.local/share/bash-completion/completions/leaselock
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

/// Print the manual page, of the command or of one verb
///
/// For example: leaselock man run | man -l -
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The verb; without it the page of the whole command
    pub(crate) verb: Option<String>,
}
