//! The guardian: a small process that ends the job before anybody else can get its lock.
//!
//! A lease runs out by itself, and a holder that is stopped, swapped out or killed cannot know it.
//! So the one who ends the job is another process, forked before the store is even asked. It gets
//! every new deadline through a socket and acts when no later one came. It promises nothing when
//! it is stopped itself, or when the job has left both its process group and its family, as
//! daemons do.
//!
//! | what happens | what the guardian does |
//! |--|--|
//! | the deadline comes near | signal, later kill, see [`schedule`] |
//! | the wrapper says that the lease is lost | the same, at once |
//! | the wrapper says that the job has ended | leaves; when it had signalled, it ends the rest of the job first |
//! | the wrapper dies, the job holds the lock by its descriptor | leaves the job alone, as `flock(1)` does |
//! | the wrapper dies otherwise | keeps to the last deadline |

mod message;
mod schedule;
mod watch;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

pub(crate) use message::JobKind;
use message::{Heard, Message, hear};
pub(crate) use schedule::Plan;

use crate::process;
use crate::procfs::Status;

/// The wrapper's side of its guardian.
pub(crate) struct Guardian {
    pid: Pid,
    line: Line,
}

/// The socket to the guardian. Cheap to clone, and to be used from any thread for sending.
#[derive(Debug, Clone)]
pub(crate) struct Line(Arc<OwnedFd>);

/// What the guardian says by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// It told the job to end.
    Fired,
    /// It is no more: the job is unguarded.
    Gone,
}

/// How the guardian took the end of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The job ended by itself.
    Quiet,
    /// It had told the job to end, and stays until the last of it is gone.
    Fired,
    /// It did not answer: it is stopped or dead.
    Silent,
}

impl Guardian {
    /// Forks the guardian. To be called while there is one thread only.
    pub(crate) fn start(status: &Status, plan: Plan) -> io::Result<Guardian> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let pid = process::fork(status, || match watch::guard(theirs.as_fd(), plan) {
            Ok(()) => 0,
            Err(_) => 70,
        })?;
        Ok(Guardian {
            pid,
            line: Line(Arc::new(ours)),
        })
    }

    pub(crate) fn line(&self) -> Line {
        self.line.clone()
    }

    /// Says that the job has ended, which must not be reaped yet, and hears how that fits with
    /// what the guardian did. After this it touches the job's number no more, or has died.
    pub(crate) fn dismiss(&self) -> Verdict {
        let verdict = self.ask_for_verdict().unwrap_or(Verdict::Silent);
        if verdict == Verdict::Silent {
            // Stopped, it could wake up later and meet another process under the job's number.
            kill_process(self.pid, Signal::KILL).ok();
        }
        verdict
    }

    /// Waits for the guardian's end, and so for the end of all that it still had to kill.
    pub(crate) fn wait(self) {
        retry_on_intr(|| waitpid(Some(self.pid), WaitOptions::empty())).ok();
    }

    /// Sends the guardian home when there has been no job.
    pub(crate) fn retire(self) {
        self.dismiss();
        self.wait();
    }

    fn ask_for_verdict(&self) -> Option<Verdict> {
        self.line.send_within(Message::Done, PATIENCE)?;
        loop {
            match self.line.hear_within(PATIENCE)? {
                Message::Over { fired: true } => return Some(Verdict::Fired),
                Message::Over { fired: false } => return Some(Verdict::Quiet),
                // Notices that crossed our message.
                _ => {}
            }
        }
    }
}

/// How long an answer may take that is due at once, on a machine that is very busy.
const PATIENCE: Duration = Duration::from_secs(1);

impl Line {
    /// The lease now ends at this moment, in nanoseconds of the clock that counts suspend. Never
    /// waits: a guardian that does not listen acts on an older deadline, which is earlier.
    pub(crate) fn deadline(&self, at: u64) {
        Message::Deadline(at).send(&self.0).ok();
    }

    /// The lease is lost: the job is to be ended now.
    pub(crate) fn lost(&self) {
        Message::Lost.send(&self.0).ok();
    }

    /// Gives the guardian a descriptor that has to stay open until the job is dead.
    pub(crate) fn keep(&self, fd: OwnedFd) -> io::Result<()> {
        Ok(Message::Keep.send_with(&self.0, fd.as_fd())?)
    }

    /// Called in the job's process just before it becomes the user's command: so the command
    /// never runs unguarded, not even for the moment in which the wrapper learns its pid.
    ///
    /// Makes system calls only, as the time between fork and exec demands.
    pub(crate) fn enlist(&self, kind: JobKind) -> Result<(), Refusal> {
        let pid = rustix::process::getpid().as_raw_pid().unsigned_abs();
        Message::Job(pid, kind)
            .send(&self.0)
            .map_err(|_| Refusal::Unguarded)?;
        match self.hear_within(PATIENCE) {
            Some(Message::Watching) => Ok(()),
            Some(Message::Refused(why)) if why != 0 => Err(Refusal::Blind(why)),
            Some(_) => Err(Refusal::TooLate),
            None => Err(Refusal::Unguarded),
        }
    }

    /// What the guardian said by itself, if anything; never waits.
    pub(crate) fn notice(&self) -> Option<Notice> {
        loop {
            match hear(&self.0) {
                Ok(Heard::Message(Message::Fired, _)) => return Some(Notice::Fired),
                Ok(Heard::Message(..)) => {}
                Ok(Heard::Nothing) => return None,
                Ok(Heard::Closed) | Err(_) => return Some(Notice::Gone),
            }
        }
    }

    fn send_within(&self, message: Message, limit: Duration) -> Option<()> {
        if message.send(&self.0).is_ok() {
            return Some(());
        }
        self.ready_within(PollFlags::OUT, limit)?;
        message.send(&self.0).ok()
    }

    fn hear_within(&self, limit: Duration) -> Option<Message> {
        loop {
            match hear(&self.0) {
                Ok(Heard::Message(message, _)) => return Some(message),
                Ok(Heard::Nothing) => self.ready_within(PollFlags::IN, limit)?,
                Ok(Heard::Closed) | Err(_) => return None,
            }
        }
    }

    fn ready_within(&self, what: PollFlags, limit: Duration) -> Option<()> {
        let limit = Timespec::try_from(limit).ok()?;
        let mut fds = [PollFd::new(&self.0, what)];
        let ready = retry_on_intr(|| poll(&mut fds, Some(&limit))).ok()?;
        (ready > 0).then_some(())
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
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
