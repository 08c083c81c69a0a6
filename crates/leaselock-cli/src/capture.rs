//! A job's standard output: passed on as it comes, and kept.

use std::io;
use std::os::fd::OwnedFd;
use std::thread::{Builder, JoinHandle};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{read, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::output;

/// The most that is kept; the record has a line of its own before it.
const KEPT_MAX: usize = (1 << 20) - 64;
const BUFFER: usize = 64 * 1024;

/// Copies until the job has ended. A thread of its own does it, because the reader of our output may be slow.
pub(crate) struct Capture {
    copies: JoinHandle<Option<Vec<u8>>>,
    /// Closed when the job has ended. A process that it left behind may keep its output open.
    until: OwnedFd,
}

impl Capture {
    /// Also returns what is to be the job's standard output.
    pub(crate) fn start() -> io::Result<(Capture, OwnedFd)> {
        let (from_job, job) = pipe_with(PipeFlags::CLOEXEC)?;
        let (ended, until) = pipe_with(PipeFlags::CLOEXEC)?;
        let copies = Builder::new().spawn(move || copy(&from_job, &ended))?;
        Ok((Capture { copies, until }, job))
    }

    /// Waits until all of it is passed on, and returns it; `None` when it was too long, or could not be passed on.
    pub(crate) async fn end(self) -> Option<Vec<u8>> {
        drop(self.until);
        let copies = self.copies;
        let joined = tokio::task::spawn_blocking(move || copies.join().ok().flatten());
        joined.await.ok().flatten()
    }
}

/// Ends early when nobody reads our output any more: the job then meets a closed pipe, as it would without us.
fn copy(from_job: &OwnedFd, ended: &OwnedFd) -> Option<Vec<u8>> {
    let (mut kept, mut buffer) = (Some(Vec::new()), vec![0; BUFFER]);
    loop {
        let mut ready = [
            PollFd::new(from_job, PollFlags::IN),
            PollFd::new(ended, PollFlags::IN),
        ];
        retry_on_intr(|| poll(&mut ready, None)).ok()?;
        if ready[0].revents().is_empty() {
            return kept; // the job has ended, and all that it wrote is read
        }
        let length = retry_on_intr(|| read(from_job, &mut buffer)).ok()?;
        if length == 0 {
            return kept;
        }
        output::try_print(&buffer[..length]).ok()?;
        kept = kept.filter(|kept| kept.len() + length <= KEPT_MAX);
        if let Some(kept) = &mut kept {
            kept.extend_from_slice(&buffer[..length]);
        }
    }
}
