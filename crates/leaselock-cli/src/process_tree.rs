//! The processes of a job, signalled together: the leader, its group, its descendants.
//!
//! A pid may be given to another process as soon as its owner is reaped. So every process is held
//! by a pidfd, which never changes its meaning, and the number of a group is used only while it
//! cannot have passed to another process.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal,
    test_kill_process_group,
};

use crate::procfs::{self, Stat};

#[derive(Debug)]
pub(crate) struct ProcessTree {
    leader: Pid,
    pidfd: OwnedFd,
    started: u64,
    own_group: bool,
    /// Descendants seen so far. Children of a process that dies are adopted by another and could
    /// not be found again, so they are remembered from the first signal on.
    descendants: BTreeMap<i32, OwnedFd>,
}

impl ProcessTree {
    /// Takes a process that is certain to be neither reaped nor replaced during this call.
    pub(crate) fn open(leader: Pid, own_group: bool) -> rustix::io::Result<ProcessTree> {
        let pidfd = pidfd_open(leader, PidfdFlags::empty())?;
        let started = Stat::read(leader.as_raw_pid())?.started;
        Ok(ProcessTree {
            leader,
            pidfd,
            started,
            own_group,
            descendants: BTreeMap::new(),
        })
    }

    /// Readable once the leader has ended.
    pub(crate) fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    pub(crate) fn leader_ended(&self) -> bool {
        ended(&self.pidfd)
    }

    /// To the leader alone. A process that has ended does not need it, here and below.
    pub(crate) fn signal_leader(&self, signal: Signal) {
        pidfd_send_signal(&self.pidfd, signal).ok();
    }

    /// To all of the job: its group, or leader and descendants when the group is not its own.
    pub(crate) fn signal(&mut self, signal: Signal) {
        self.find_descendants();
        if self.own_group {
            return self.signal_group(signal);
        }
        self.signal_leader(signal);
        self.signal_descendants(signal);
    }

    /// Signals the job to end, and continues a stopped one, so that it can handle the signal.
    pub(crate) fn terminate(&mut self, signal: Signal) {
        self.signal(signal);
        self.signal(Signal::CONT);
    }

    /// Ends group, leader and every descendant, also those that left the group. To be repeated
    /// until no process is left, since one may start another meanwhile.
    pub(crate) fn kill(&mut self) {
        self.find_descendants();
        if self.own_group {
            self.signal_group(Signal::KILL);
        }
        self.signal_leader(Signal::KILL);
        self.signal_descendants(Signal::KILL);
    }

    /// Whether nothing of the job runs any more, as far as it can be known.
    pub(crate) fn is_gone(&self) -> bool {
        self.leader_ended() && self.descendants.values().all(ended) && !self.group_lives()
    }

    fn signal_group(&self, signal: Signal) {
        if !self.number_passed_on() {
            kill_process_group(self.leader, signal).ok();
        }
    }

    fn signal_descendants(&self, signal: Signal) {
        for descendant in self.descendants.values() {
            pidfd_send_signal(descendant, signal).ok();
        }
    }

    /// The kernel keeps the number of a group from being given away as long as it has members.
    /// So the number is another's only when a process other than our leader has it.
    fn number_passed_on(&self) -> bool {
        self.leader_ended()
            && Stat::of(self.leader.as_raw_pid()).is_some_and(|stat| stat.started != self.started)
    }

    /// Whether a member of the group still runs; the dead count as members until they are reaped,
    /// which in a container may be never. A process whose state cannot be read counts as running.
    fn group_lives(&self) -> bool {
        let group = self.leader.as_raw_pid();
        self.own_group
            && test_kill_process_group(self.leader) != Err(Errno::SRCH)
            && !self.number_passed_on()
            && procfs::everybody().map_or(true, |all| {
                let mut stats = all.into_iter().filter_map(Stat::of);
                stats.any(|stat| stat.group == group && !stat.dead)
            })
    }

    fn find_descendants(&mut self) {
        self.descendants.retain(|_, fd| !ended(fd));
        let mut parents: Vec<i32> = self.descendants.keys().copied().collect();
        parents.push(self.leader.as_raw_pid());
        while let Some(parent) = parents.pop() {
            let Some(pid) = Pid::from_raw(parent) else {
                continue;
            };
            for child in procfs::children(pid) {
                if self.descendants.contains_key(&child) {
                    continue;
                }
                let Some(fd) = self.hold(child, parent) else {
                    continue;
                };
                self.descendants.insert(child, fd);
                parents.push(child);
            }
        }
    }

    /// Holds a process if it is a child of this parent of ours.
    ///
    /// Both numbers may have passed to others since the list of children was read. So the child is
    /// asked for its parent after it is held, and the parent whether it lives after that.
    fn hold(&self, child: i32, parent: i32) -> Option<OwnedFd> {
        let held = pidfd_open(Pid::from_raw(child)?, PidfdFlags::empty()).ok()?;
        let parent_fd = self.descendants.get(&parent).unwrap_or(&self.pidfd);
        (Stat::of(child)?.parent == parent && !ended(parent_fd)).then_some(held)
    }
}

/// Whether the process of a pidfd has ended.
pub(crate) fn ended(pidfd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    poll(
        &mut fds,
        Some(&Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        }),
    )
    .is_ok_and(|ready| ready > 0)
}
