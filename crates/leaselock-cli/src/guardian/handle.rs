//! The wrapper's handle on its guardian: it starts the guardian, and dismisses it when the job has ended.

use std::io;
use std::os::fd::AsFd as _;

use rustix::io::retry_on_intr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::channel::{ANSWER_LIMIT, Channel};
use super::message::Message;
use super::schedule::Plan;
use super::watch;
use crate::process;
use crate::procfs::Status;

/// The wrapper's side of its guardian.
pub(crate) struct Guardian {
    pid: Pid,
    channel: Channel,
}

/// How the guardian took the end of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The job ended by itself.
    Quiet,
    /// It had signalled the job to end, and stays until the last process of the job is gone.
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
            channel: Channel::new(ours),
        })
    }

    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Tells the guardian that the job has ended, and asks whether it had signalled the job. The job
    /// must not be reaped yet. After this the guardian no longer uses the job's pid, or is dead.
    pub(crate) fn dismiss(&self) -> Verdict {
        let verdict = self.ask_for_verdict().unwrap_or(Verdict::Silent);
        if verdict != Verdict::Fired {
            // It has nothing left to do. One that is stopped would keep us waiting for its end, or run on later and find
            // another process under the job's pid.
            kill_process(self.pid, Signal::KILL).ok();
        }
        verdict
    }

    /// Waits for the guardian's end, and so for the end of all processes that it still had to kill.
    pub(crate) fn wait(self) {
        retry_on_intr(|| waitpid(Some(self.pid), WaitOptions::empty())).ok();
    }

    /// Ends the guardian when there has been no job.
    pub(crate) fn retire(self) {
        self.dismiss();
        self.wait();
    }

    fn ask_for_verdict(&self) -> Option<Verdict> {
        self.channel.send_within(Message::Done, ANSWER_LIMIT)?;
        loop {
            match self.channel.receive_within(ANSWER_LIMIT)? {
                Message::Over { fired: true } => return Some(Verdict::Fired),
                Message::Over { fired: false } => return Some(Verdict::Quiet),
                // Notices that crossed our message.
                _ => {}
            }
        }
    }
}
