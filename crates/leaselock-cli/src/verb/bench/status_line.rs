//! The line that shows, on a terminal, what is being measured.

use std::future::Future;
use std::io::{IsTerminal as _, stderr};

use crate::args::Globals;
use crate::waiting_message::{Cleared, show_line};

/// Shows the line while `work` runs, and clears it afterwards in any case.
pub(super) async fn shown<T>(globals: &Globals, what: &str, work: impl Future<Output = T>) -> T {
    let _cleared = (!globals.quiet && !globals.json && stderr().is_terminal()).then(|| {
        show_line(&format!("leaselock: measuring {what}"));
        Cleared
    });
    work.await
}
