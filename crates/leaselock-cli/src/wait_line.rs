//! The line that a long wait shows on a terminal: place, holder, for how long.

use std::io::{IsTerminal as _, stderr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leaselock::{Holding, Waiting};

use crate::args::Globals;
use crate::session::Locks;
use crate::{output, show};

/// Short waits stay silent.
const FIRST: Duration = Duration::from_millis(700);
const EVERY: Duration = Duration::from_secs(1);
/// Back to the first column, and clear to the end of the line.
pub(crate) const CLEAR: &str = "\r\x1b[K";

/// What the library tells while it waits.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watch(Arc<Mutex<Option<usize>>>);

impl Watch {
    /// For `on_wait`.
    pub(crate) fn tell(&self, waiting: &Waiting) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(waiting.place);
    }

    fn place(&self) -> Option<usize> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows the line as long as it is polled; what it wrote is cleared when it is dropped. Never
    /// ends, so put it beside the wait in a `select!`.
    pub(crate) async fn show(&self, client: &Locks, name: &str, globals: &Globals) {
        if globals.quiet || globals.json || !stderr().is_terminal() {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(FIRST).await;
        let _cleared = Cleared;
        loop {
            if let Some(place) = self.place() {
                let holder = match client.inspect(name).await.map(|seen| seen.state) {
                    Ok(Holding::Held(holder)) => format!(" behind {}", show::holder(&holder)),
                    _ => String::new(),
                };
                let text = format!(
                    "leaselock: waiting for {}: place {place}{holder}",
                    output::tame(name)
                );
                let short: String = text.chars().take(columns().saturating_sub(1)).collect();
                output::say(&format!("{CLEAR}{short}"));
            }
            tokio::time::sleep(EVERY).await;
        }
    }
}

pub(crate) fn columns() -> usize {
    // A terminal that was never told its size, as on a serial line, says 0.
    match rustix::termios::tcgetwinsize(stderr()) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col).max(20),
        _ => 80,
    }
}

struct Cleared;

impl Drop for Cleared {
    fn drop(&mut self) {
        output::say(CLEAR);
    }
}
