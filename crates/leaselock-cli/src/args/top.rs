//! The arguments of the verb that fills the terminal.

use std::time::Duration;

use clap::Args;

use crate::{duration, manual};

/// Watch the locks that are held, on the whole terminal
///
/// The table of ls with the most waiters at the top, and the chosen lock with its queue. Arrows or j
/// and k choose a lock, Enter opens it, / filters, ? names all keys, q ends. With --once, and into a
/// pipe, it prints one frame as text; with --json each lock as one object.
#[derive(Debug, Args)]
#[command(after_help = manual::TOP)]
pub(crate) struct TopArgs {
    /// Only names that match: * any text, ? one byte (an ASCII character), [a-z] one of these
    #[arg(default_value = "*")]
    pub(crate) pattern: String,

    /// How often the store is read; one with very many locks is listed more rarely
    #[arg(long, value_name = "DUR", value_parser = duration::parse, default_value = "2s")]
    pub(crate) every: Duration,

    /// Let the key b break a lock, after its name was typed
    #[arg(long)]
    pub(crate) allow_break: bool,

    /// Print one frame as text, and end
    #[arg(long)]
    pub(crate) once: bool,
}
