//! The socket between the guardian and those that it serves: the wrapper, and the job before it becomes a command.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;

use crate::boottime::{End, ends_in};

use super::message::{JobKind, Message, Received, receive};

/// The socket to the guardian. Cheap to clone, and to be used from any thread for sending.
#[derive(Debug, Clone)]
pub(crate) struct Channel {
    socket: Arc<OwnedFd>,
    /// The latest deadline that was sent.
    end: End,
}

/// What the guardian reports by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// It has signalled the job to end.
    Fired,
    /// It is dead: the job is unguarded.
    Gone,
}

/// How long an answer may take that is due at once, on a machine that is very busy.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(1);

impl Channel {
    pub(super) fn new(socket: OwnedFd) -> Channel {
        Channel {
            socket: Arc::new(socket),
            end: End::default(),
        }
    }

    /// The lease now ends at this moment, in nanoseconds of the clock that counts suspend. Never
    /// waits: a guardian that does not listen acts on an older deadline, which is earlier.
    pub(crate) fn deadline(&self, at: u64) {
        self.end.store(at, Ordering::SeqCst);
        Message::Deadline(at).send(&self.socket).ok();
    }

    /// How long until the latest deadline.
    pub(crate) fn lease_ends_in(&self) -> Duration {
        ends_in(&self.end)
    }

    /// The lease is lost: the guardian must end the job now.
    pub(crate) fn lost(&self) {
        Message::Lost.send(&self.socket).ok();
    }

    /// Gives the guardian a descriptor that has to stay open until the job is dead.
    pub(crate) fn keep(&self, fd: OwnedFd) -> io::Result<()> {
        Ok(Message::Keep.send_with(&self.socket, fd.as_fd())?)
    }

    /// Called in the job's process just before it becomes the user's command: so the command
    /// never runs unguarded, not even for the moment in which the wrapper learns its pid.
    ///
    /// Makes system calls only, as the time between fork and exec demands.
    pub(crate) fn enlist(&self, kind: JobKind) -> Result<(), Refusal> {
        let pid = rustix::process::getpid().as_raw_pid().unsigned_abs();
        Message::Job(pid, kind)
            .send(&self.socket)
            .map_err(|_| Refusal::Unguarded)?;
        self.answer()
    }

    /// The same for a process that runs already, by its pidfd.
    pub(crate) fn enlist_process(&self, process: BorrowedFd<'_>) -> Result<(), Refusal> {
        let sent = Message::Process.send_with(&self.socket, process);
        sent.map_err(|_| Refusal::Unguarded)?;
        self.answer()
    }

    fn answer(&self) -> Result<(), Refusal> {
        match self.receive_within(ANSWER_LIMIT) {
            Some(Message::Watching) => Ok(()),
            Some(Message::Refused(why)) if why != 0 => Err(Refusal::Blind(why)),
            Some(_) => Err(Refusal::TooLate),
            None => Err(Refusal::Unguarded),
        }
    }

    /// What the guardian has reported by itself, if anything; never waits.
    pub(crate) fn notice(&self) -> Option<Notice> {
        loop {
            match receive(&self.socket) {
                Ok(Received::Message(Message::Fired, _)) => return Some(Notice::Fired),
                Ok(Received::Message(..)) => {}
                Ok(Received::Nothing) => return None,
                Ok(Received::Closed) | Err(_) => return Some(Notice::Gone),
            }
        }
    }

    pub(super) fn send_within(&self, message: Message, limit: Duration) -> Option<()> {
        if message.send(&self.socket).is_ok() {
            return Some(());
        }
        self.ready_within(PollFlags::OUT, limit)?;
        message.send(&self.socket).ok()
    }

    pub(super) fn receive_within(&self, limit: Duration) -> Option<Message> {
        loop {
            match receive(&self.socket) {
                Ok(Received::Message(message, _)) => return Some(message),
                Ok(Received::Nothing) => self.ready_within(PollFlags::IN, limit)?,
                Ok(Received::Closed) | Err(_) => return None,
            }
        }
    }

    fn ready_within(&self, what: PollFlags, limit: Duration) -> Option<()> {
        let limit = Timespec::try_from(limit).ok()?;
        let mut fds = [PollFd::new(&self.socket, what)];
        let ready = retry_on_intr(|| poll(&mut fds, Some(&limit))).ok()?;
        (ready > 0).then_some(())
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Why a job may not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The lease is about to end.
    TooLate,
    /// There is no guardian, or it does not answer.
    Unguarded,
    /// The guardian cannot watch the job, for the reason with this number.
    Blind(u32),
}
