//! The lines of `hold` on standard output: a thread writes them, because a reader that does not read must not keep the
//! command from releasing a lock.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use crate::output;

/// Writes in the order in which lines came. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Feed(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    lines: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    waiting: Vec<String>,
    /// A later one takes its place while it waits: a reader that comes late needs the newest alone.
    renewed: Option<String>,
    writing: bool,
    failed: Option<io::ErrorKind>,
}

impl Feed {
    /// Starts the thread, which lives as long as this process.
    pub(crate) fn start() -> io::Result<Feed> {
        let feed = Feed::default();
        let its = feed.clone();
        Builder::new().spawn(move || its.write())?;
        Ok(feed)
    }

    pub(crate) fn put(&self, line: String) {
        self.lines().waiting.push(line);
        self.0.changed.notify_all();
    }

    /// In place of an earlier one that was not written yet.
    pub(crate) fn put_renewed(&self, line: String) {
        self.lines().renewed = Some(line);
        self.0.changed.notify_all();
    }

    /// Waits until all lines are written, at most so long.
    pub(crate) fn flush_within(&self, limit: Duration) -> io::Result<()> {
        let unwritten = |lines: &mut Lines| lines.failed.is_none() && !lines.are_written();
        let waited = self
            .0
            .changed
            .wait_timeout_while(self.lines(), limit, unwritten);
        let (lines, late) = waited.unwrap_or_else(PoisonError::into_inner);
        match lines.failed {
            Some(kind) => Err(kind.into()),
            None if late.timed_out() => Err(io::ErrorKind::TimedOut.into()),
            None => Ok(()),
        }
    }

    fn write(&self) {
        let mut lines = self.lines();
        loop {
            let next = match lines.waiting.is_empty() {
                true => lines.renewed.take(),
                false => Some(lines.waiting.remove(0)),
            };
            lines.writing = next.is_some();
            let Some(next) = next else {
                self.0.changed.notify_all();
                lines = self
                    .0
                    .changed
                    .wait(lines)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(lines);
            let written = output::try_print(next.as_bytes());
            lines = self.lines();
            if let Err(error) = written {
                lines.failed = Some(error.kind());
            }
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    fn are_written(&self) -> bool {
        self.waiting.is_empty() && self.renewed.is_none() && !self.writing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The thread is not started, as if it were at a write that waits for a reader.
    #[test]
    fn of_the_renewals_that_nobody_reads_the_newest_is_kept_and_other_lines_go_before_it() {
        let feed = Feed::default();
        feed.put("acquired\n".to_owned());
        for at in 0..10_000 {
            feed.put_renewed(format!("renewed {at}\n"));
        }
        feed.put("lost\n".to_owned());
        let lines = feed.lines();
        assert_eq!(lines.waiting, ["acquired\n", "lost\n"]);
        assert_eq!(lines.renewed.as_deref(), Some("renewed 9999\n"));
        drop(lines);
        let late = feed.flush_within(Duration::from_millis(1)).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    }
}
