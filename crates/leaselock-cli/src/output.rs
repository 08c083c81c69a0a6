//! Standard output holds what was asked for; everything else goes to standard error.

use std::io::{self, Write as _};
use std::thread::Builder;
use std::time::Duration;

use leaselock::satellite::tame;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::invisible::escaped;

/// Why standard output could not be written.
#[derive(Debug)]
pub(crate) struct NotPrinted(pub(crate) io::Error);

/// Prints what the user asked for. A reader that has closed the pipe, as `head` does, is no error.
pub(crate) fn print(bytes: &[u8]) -> Result<(), NotPrinted> {
    match try_print(bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(NotPrinted(error)),
        _ => Ok(()),
    }
}

/// Prints what must not get lost: a closed pipe is an error.
pub(crate) fn try_print(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush())
}

/// Completes when the reader of a pipe on standard output is gone, and never for a file. Cancel safe: a thread watches,
/// which ends with this process.
pub(crate) async fn reader_gone() {
    let (gone, is_gone) = oneshot::channel();
    let watch = move || {
        let stdout = io::stdout();
        let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
        if retry_on_intr(|| poll(&mut watched, None)).is_ok() {
            gone.send(()).ok();
        }
    };
    // Where no thread can start, the next line that is printed finds the reader gone.
    Builder::new().spawn(watch).ok();
    if is_gone.await.is_err() {
        std::future::pending().await
    }
}

/// Writes to standard error. An error is ignored, because there is no other place to report it.
pub(crate) fn say(text: &str) {
    io::stderr().lock().write_all(text.as_bytes()).ok();
}

/// The same of a report, which is left out when the reader stalls: a lock may be held meanwhile, or a signal wait.
pub(crate) fn report(text: &str) {
    /// How long a report waits for its reader.
    const READER_LIMIT: Duration = Duration::from_millis(250);
    let stderr = io::stderr();
    let limit = Timespec::try_from(READER_LIMIT).ok();
    let mut ready = [PollFd::new(&stderr, PollFlags::OUT)];
    if retry_on_intr(|| poll(&mut ready, limit.as_ref())) != Ok(0) {
        say(text);
    }
}

/// One object as a line of JSON.
pub(crate) fn json(object: &Value) -> String {
    line(&object.to_string())
}

/// The same of one that is text already.
pub(crate) fn line(object: &str) -> String {
    format!("{}\n", escaped(object))
}

/// Replaces the characters of names and notes that could move the cursor, colour the terminal or
/// reverse the text, and limits the length: other clients wrote them.
pub(crate) fn sanitized(text: &str) -> String {
    const MOST: usize = 1000;
    tame(text, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_others_reaches_the_terminal_as_a_command() {
        assert_eq!(
            sanitized("a\x1b[31mb\r\n\u{9b}c"),
            "a\u{fffd}[31mb\u{fffd}\u{fffd}\u{fffd}c"
        );
        assert_eq!(
            sanitized("a\u{202e}b\u{2066}c\u{200b}\u{2028}\u{e0041}d"),
            "a\u{fffd}b\u{fffd}c\u{fffd}\u{fffd}\u{fffd}d"
        );
        assert_eq!(sanitized(&"x".repeat(5000)).len(), 1000);
    }
}
