//! A job's standard output: passed on as it comes, and kept.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{read, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::output;

/// The most that is kept: the library takes 1 MiB, and the record has a line of its own before it.
const KEPT_MAX: usize = (1 << 20) - 64;
const BUFFER: usize = 64 * 1024;

/// Copies until the job has ended. A thread of its own does it, because the reader of our output may be slow.
pub(crate) struct Capture {
    copies: JoinHandle<io::Result<Option<Vec<u8>>>>,
    /// Closed when the job has ended. A process that it left behind may keep its output open.
    until: OwnedFd,
    /// Bytes that our output has taken.
    written: Arc<AtomicU64>,
}

impl Capture {
    /// Also returns what is to be the job's standard output.
    pub(crate) fn start() -> io::Result<(Capture, OwnedFd)> {
        let (from_job, job) = pipe_with(PipeFlags::CLOEXEC)?;
        let (ended, until) = pipe_with(PipeFlags::CLOEXEC)?;
        let written = Arc::default();
        let counts = Arc::clone(&written);
        let copies = Builder::new().spawn(move || copy(&from_job, &ended, &counts))?;
        let capture = Capture {
            copies,
            until,
            written,
        };
        Ok((capture, job))
    }

    /// How many bytes have been passed on, as it grows; of the latest 64 KiB none, as long as not all of them are.
    pub(crate) fn written(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.written)
    }

    /// Waits until all of it is passed on, and returns it; `None` when it was too long, or its reader went away.
    ///
    /// The error says why it could not be passed on otherwise.
    pub(crate) async fn end(self) -> io::Result<Option<Vec<u8>>> {
        drop(self.until);
        let copies = self.copies;
        let joined = tokio::task::spawn_blocking(move || copies.join()).await?;
        joined.unwrap_or_else(|_| Err(io::Error::other("the copying has failed")))
    }
}

/// Ends early when our output cannot be written any more: the job then meets a closed pipe, as it would without us when
/// no program reads it.
fn copy(from_job: &OwnedFd, ended: &OwnedFd, written: &AtomicU64) -> io::Result<Option<Vec<u8>>> {
    let (mut kept, mut buffer) = (Some(Vec::new()), vec![0; BUFFER]);
    loop {
        let mut ready = [
            PollFd::new(from_job, PollFlags::IN),
            PollFd::new(ended, PollFlags::IN),
        ];
        retry_on_intr(|| poll(&mut ready, None))?;
        if ready[0].revents().is_empty() {
            return Ok(kept); // the job has ended, and all that it wrote is read
        }
        let length = retry_on_intr(|| read(from_job, &mut buffer))?;
        if length == 0 {
            return Ok(kept);
        }
        match output::try_print(&buffer[..length]) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(None),
            printed => printed?,
        }
        written.fetch_add(length as u64, Ordering::Relaxed);
        kept = kept.filter(|kept| kept.len() + length <= KEPT_MAX);
        if let Some(kept) = &mut kept {
            kept.extend_from_slice(&buffer[..length]);
        }
    }
}
