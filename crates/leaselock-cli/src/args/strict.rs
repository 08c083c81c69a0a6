//! The arguments of the verb for strict mode.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::duration;

/// Set up strict mode on a server, or show its state
///
/// In strict mode (--strict) a server that was restarted, promoted or emptied grants no lock until
/// every lease has expired that it may have forgotten. All clients of the server must use it.
#[derive(Debug, Args)]
pub(crate) struct StrictArgs {
    #[command(subcommand)]
    pub(crate) step: Step,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Step {
    Init(InitArgs),
    Status(StatusArgs),
}

/// Let the server grant locks at once, and set the longest ttl
///
/// Only if no lock is held on this server: it skips the wait that protects earlier holders. Also
/// changes the longest ttl; then all clients must name the new one.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The longest ttl that any client will ask for [default: --strict]
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    pub(crate) longest: Option<Duration>,
}

/// Show whether the server grants locks, and when it will
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {}
