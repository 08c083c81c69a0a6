//! The line that shows, on a terminal, what is being measured.

use std::future::Future;
use std::io::{IsTerminal as _, stderr};

use crate::args::Globals;
use crate::output;
use crate::waiting_message::{CLEAR, columns};

/// Shows the line while `work` runs, and clears it afterwards in any case.
pub(super) async fn shown<T>(globals: &Globals, what: &str, work: impl Future<Output = T>) -> T {
    let _cleared = (!globals.quiet && !globals.json && stderr().is_terminal()).then(|| {
        let text = format!("leaselock: measuring {what}");
        let short: String = text
            .chars()
            .take(columns(std::io::stderr()).saturating_sub(1))
            .collect();
        output::say(&format!("{CLEAR}{short}"));
        Cleared
    });
    work.await
}

struct Cleared;

impl Drop for Cleared {
    fn drop(&mut self) {
        output::say(CLEAR);
    }
}
