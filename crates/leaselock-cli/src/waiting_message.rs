//! The message that a long wait shows on a terminal: position and holder, or how long a quarantine lasts.

use std::io::{IsTerminal as _, stderr};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leaselock::options::Waiting;
use leaselock::satellite::rounded;
use leaselock::strict::Quarantine;
use tokio::sync::Notify;

use crate::args::Globals;
use crate::look::Look;
use crate::text_width::cut;
use crate::{boottime, output};

/// Short waits stay silent.
const FIRST: Duration = Duration::from_millis(700);
const EVERY: Duration = Duration::from_secs(1);
/// Back to the first column, and clear to the end of the line.
const CLEAR: &str = "\r\x1b[K";

/// What the library has reported of the wait.
#[derive(Debug, Clone, Default)]
pub(crate) struct WaitState(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    situation: Mutex<Option<Situation>>,
    latest: Mutex<Option<Waiting>>,
    changed: Notify,
}

#[derive(Debug, Clone, Copy)]
enum Situation {
    /// Position in the queue.
    Position(usize),
    /// The server grants no lock until then.
    Quarantine { why: Quarantine, until: u64 },
}

impl WaitState {
    /// For `on_wait`.
    pub(crate) fn tell(&self, waiting: &Waiting) {
        *lock(&self.0.latest) = Some(waiting.clone());
        self.0.changed.notify_one();
        if waiting.error.is_some() {
            return; // the message stays as it was
        }
        let situation = match waiting.quarantine {
            None => Situation::Position(waiting.position),
            Some(why) => {
                let remaining = boottime::nanoseconds(waiting.remaining.unwrap_or_default());
                let until = boottime::now().saturating_add(remaining);
                Situation::Quarantine { why, until }
            }
        };
        *lock(&self.0.situation) = Some(situation);
    }

    fn situation(&self) -> Option<Situation> {
        *lock(&self.0.situation)
    }

    /// Whether the store has answered.
    pub(crate) fn has_an_answer(&self) -> bool {
        self.situation().is_some()
    }

    /// Completes when the library has reported something since the last call.
    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    pub(crate) fn latest(&self) -> Option<Waiting> {
        lock(&self.0.latest).clone()
    }

    /// Shows the message while this future is polled, and clears it when this future is dropped. Never
    /// completes, so put it beside the wait in a `select!`.
    pub(crate) async fn show(&self, look: &Look<'_>, globals: &Globals) {
        keep_shown(globals, async || {
            let (situation, latest) = (self.situation()?, self.latest()?);
            let name = latest.name.as_str();
            let what = situation.in_words(look, name).await;
            Some(format!(
                "leaselock: waiting for {}: {what}",
                output::sanitized(name)
            ))
        })
        .await;
    }
}

/// The same for a wait without a place in the queue.
pub(crate) async fn show_holder(look: &Look<'_>, name: &str, globals: &Globals) {
    keep_shown(globals, async || {
        let held = look.held_for(name).await?;
        let name = output::sanitized(name);
        Some(format!("leaselock: waiting until {name} is free: {held}"))
    })
    .await;
}

/// Shows a text on a terminal once a second, cut to its width. Never completes.
async fn keep_shown(globals: &Globals, text: impl AsyncFn() -> Option<String>) {
    if globals.quiet || globals.json || !stderr().is_terminal() {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(FIRST).await;
    let _cleared = Cleared;
    loop {
        if let Some(text) = text().await {
            show_line(&text);
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Shows a line in place of the one before, cut to the width of the terminal.
pub(crate) fn show_line(text: &str) {
    let short = cut(text, columns(stderr()).saturating_sub(1));
    output::say(&format!("{CLEAR}{short}"));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What another line begins with, so that it replaces this message on a terminal.
pub(crate) fn clear() -> &'static str {
    if stderr().is_terminal() { CLEAR } else { "" }
}

impl Situation {
    async fn in_words(self, look: &Look<'_>, name: &str) -> String {
        match self {
            Situation::Position(position) => match look.held_for(name).await {
                Some(held) => format!("position {position}; {held}"),
                None => format!("position {position}"),
            },
            Situation::Quarantine { why, until } => {
                let left = Duration::from_nanos(until.saturating_sub(boottime::now()));
                format!("no lock is granted for {}: {why}", rounded(left))
            }
        }
    }
}

/// The width of this terminal.
pub(crate) fn columns(terminal: impl AsFd) -> usize {
    // A terminal that was never told its size, as on a serial line, says 0.
    match rustix::termios::tcgetwinsize(terminal) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col).max(20),
        _ => 80,
    }
}

/// Clears the line when it is dropped.
pub(crate) struct Cleared;

impl Drop for Cleared {
    fn drop(&mut self) {
        output::say(CLEAR);
    }
}
