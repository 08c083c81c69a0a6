//! What the guardian ends before the lease does.

use std::os::fd::BorrowedFd;

use rustix::process::Signal;

use crate::process_tree::ProcessTree;

/// What is ended when the lease is lost.
#[derive(Debug)]
pub(super) enum Guarded {
    /// Nobody works under the lease yet, so nothing is ended.
    Nobody,
    /// A command, with all that it started.
    Job {
        processes: ProcessTree,
        /// It inherited the descriptor that keeps the lock, as under `flock(1)`.
        holds_lock: bool,
    },
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
        }
    }

    /// Whether the first process has ended; others may be left.
    pub(super) fn leader_ended(&self) -> bool {
        match self {
            Guarded::Nobody => false,
            Guarded::Job { processes, .. } => processes.leader_ended(),
        }
    }

    /// Asks it to end.
    pub(super) fn terminate(&mut self, signal: Signal) {
        match self {
            Guarded::Nobody => {}
            Guarded::Job { processes, .. } => processes.terminate(signal),
        }
    }

    /// Ends it. To be repeated until it is gone.
    pub(super) fn kill(&mut self) {
        match self {
            Guarded::Nobody => {}
            Guarded::Job { processes, .. } => processes.kill(),
        }
    }

    pub(super) fn is_gone(&self) -> bool {
        match self {
            Guarded::Nobody => true,
            Guarded::Job { processes, .. } => processes.is_gone(),
        }
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
