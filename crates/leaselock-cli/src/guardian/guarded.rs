//! What the guardian ends before the lease does.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::process::{Signal, pidfd_send_signal};

use crate::process_tree::{ProcessTree, ended};

/// What is ended when the lease is lost.
#[derive(Debug)]
pub(super) enum Guarded {
    /// No program works under the lease yet, so nothing is ended.
    Nobody,
    /// A command, with all that it started.
    Job {
        processes: ProcessTree,
        /// It inherited the descriptor that keeps the lock, as under `flock(1)`.
        holds_lock: bool,
    },
    /// One process that the wrapper did not start, by its pidfd. What it started is left alone: we are among that.
    Process(OwnedFd),
}

impl Guarded {
    pub(super) fn is_somebody(&self) -> bool {
        !matches!(self, Guarded::Nobody)
    }

    /// Readable once the first process has ended.
    pub(super) fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Guarded::Nobody => None,
            Guarded::Job { processes, .. } => Some(processes.pidfd()),
            Guarded::Process(process) => Some(process.as_fd()),
        }
    }

    /// Whether the first process has ended; others may be left.
    pub(super) fn leader_ended(&self) -> bool {
        match self {
            Guarded::Nobody => false,
            Guarded::Job { processes, .. } => processes.leader_ended(),
            Guarded::Process(process) => ended(process),
        }
    }

    /// Asks it to end.
    pub(super) fn terminate(&mut self, signal: Signal) {
        match self {
            Guarded::Nobody => {}
            Guarded::Job { processes, .. } => processes.terminate(signal),
            Guarded::Process(process) => {
                pidfd_send_signal(&*process, signal).ok();
                pidfd_send_signal(&*process, Signal::CONT).ok(); // so that it can handle the signal
            }
        }
    }

    /// Ends it. To be repeated until it is gone.
    pub(super) fn kill(&mut self) {
        match self {
            Guarded::Nobody => {}
            Guarded::Job { processes, .. } => processes.kill(),
            Guarded::Process(process) => {
                pidfd_send_signal(&*process, Signal::KILL).ok();
            }
        }
    }

    pub(super) fn is_gone(&self) -> bool {
        match self {
            Guarded::Nobody => true,
            Guarded::Job { processes, .. } => processes.is_gone(),
            Guarded::Process(process) => ended(process),
        }
    }

    /// Whether it is over with the wrapper's word that no work is done under the lease. Of a job processes may be left.
    pub(super) fn is_over_at_once(&self) -> bool {
        !matches!(self, Guarded::Job { .. })
    }

    /// Whether it learns by nothing else that the wrapper is dead, and that the lease will be lost.
    pub(super) fn ends_with_wrapper(&self) -> bool {
        matches!(self, Guarded::Process(_))
    }

    /// Whether it keeps the lock itself when the wrapper is gone, and may work on.
    pub(super) fn holds_lock(&self) -> bool {
        matches!(
            self,
            Guarded::Job {
                holds_lock: true,
                ..
            }
        )
    }
}
