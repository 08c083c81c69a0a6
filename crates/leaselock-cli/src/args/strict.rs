//! The arguments of the verb for strict mode.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::duration;

/// Set strict mode up on a server, or look at it
///
/// In strict mode (--strict) a server that was restarted, promoted or emptied grants nothing until
/// every lease is over that it may know nothing of. All who take locks there must be in it.
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

/// Let locks be granted at once, and say how long the longest lease will be
///
/// Only when nobody holds a lock on this server: what the first one to come would wait for is
/// taken on your word. Also changes that length; then everybody must say the new one.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The longest ttl that anybody will ask for [default: --strict]
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    pub(crate) longest: Option<Duration>,
}

/// Show whether locks are granted, and for how long still they are not
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {}
