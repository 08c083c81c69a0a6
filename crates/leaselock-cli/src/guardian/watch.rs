//! The guardian's own life, in the process that [`super::Guardian::start`] forked.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, setrlimit, setsid};
use rustix::time::{
    TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::guarded::Guarded;
use super::message::{JobKind, Message, Received, receive};
use super::schedule::{Next, Plan, Schedule};
use crate::boottime::timer_at;
use crate::process_tree::ProcessTree;
use crate::{boottime, process};

/// What `ps` and `pkill` see, so that `pkill -9 -x leaselock` leaves the guardian to do its work.
const NAME: &CStr = c"leaselock-guard";

/// What is meant for the job or the wrapper, and must not take its guardian away from it.
const DEAF_TO: [Signal; 10] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
    Signal::PIPE,
    Signal::ALARM,
    Signal::TSTP,
    Signal::TTOU,
];

/// Pauses between two polls for what is left of a job.
const FIRST_PAUSE: u64 = 5_000_000;
const LONGEST_PAUSE: u64 = 100_000_000;

/// Becomes the guardian; returns when there is nothing left to guard.
pub(super) fn guard(socket: BorrowedFd<'_>, plan: Plan) -> std::io::Result<()> {
    process::ignore(&DEAF_TO);
    // In a session of its own the guardian gets no signals of the terminal, nor its hang-up.
    setsid()?;
    rustix::thread::set_name(NAME)?;
    process::close_all_but(socket)?;
    // A reader of the wrapper's output waits for the end of the output, and must not wait for ours.
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    // Nor should a file system stay busy because of us.
    std::env::set_current_dir("/")?;
    // Every descendant of the job costs a descriptor, at the time when it counts.
    let most = getrlimit(Resource::Nofile).maximum;
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: most,
            maximum: most,
        },
    )?;
    let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?;
    let schedule = Schedule::new(plan);
    Watch {
        socket,
        timer,
        schedule,
        plan,
        wrapper: Wrapper::There,
        guarded: Guarded::Nobody,
        kept: Vec::new(),
    }
    .run()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrapper {
    There,
    /// It reported that the job has ended.
    Finished,
    /// It died or was killed without a message.
    Dead,
}

struct Watch<'a> {
    socket: BorrowedFd<'a>,
    timer: OwnedFd,
    schedule: Schedule,
    plan: Plan,
    wrapper: Wrapper,
    guarded: Guarded,
    /// They stay open until this process ends, which is after the job.
    kept: Vec<OwnedFd>,
}

impl Watch<'_> {
    fn run(mut self) -> std::io::Result<()> {
        let mut pause = FIRST_PAUSE;
        loop {
            // First the news, then the clock: a deadline that came in time counts even when we
            // did not get a processor in time.
            while self.wrapper == Wrapper::There && self.listen() {}
            if self.is_over() {
                return Ok(());
            }
            let due = self.act();
            // Asked once: a leader that ends from here on ends the sleep, because its end is waited for.
            let leader_ended = self.guarded.leader_ended();
            let must_poll = self.must_poll(leader_ended);
            let poll_at = must_poll.then(|| boottime::now().saturating_add(pause));
            if must_poll {
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            let until = [due, poll_at].into_iter().flatten().min();
            self.sleep(until, leader_ended)?;
        }
    }

    /// Handles one message; returns whether there was one.
    fn listen(&mut self) -> bool {
        match receive(self.socket) {
            Ok(Received::Message(message, fd)) => {
                self.take(message, fd);
                true
            }
            Ok(Received::Nothing) => false,
            Ok(Received::Closed) | Err(_) => {
                self.wrapper = Wrapper::Dead;
                if self.guarded.ends_with_wrapper() {
                    self.schedule.lost(boottime::now());
                }
                false
            }
        }
    }

    fn take(&mut self, message: Message, fd: Option<OwnedFd>) {
        match message {
            Message::Deadline(at) => self.schedule.extend(at),
            Message::Lost => self.schedule.lost(boottime::now()),
            Message::Job(pid, kind) => {
                let answer = match self.adopt(pid, kind) {
                    Ok(Some(job)) => {
                        self.guarded = job;
                        Message::Watching
                    }
                    Ok(None) => Message::Refused(0),
                    Err(why) => Message::Refused(why.raw_os_error().unsigned_abs()),
                };
                self.say(answer);
            }
            Message::Done => {
                self.say(Message::Over {
                    fired: self.schedule.fired(),
                });
                self.wrapper = Wrapper::Finished;
            }
            Message::Keep => self.kept.extend(fd),
            Message::Process => {
                let in_time = self.schedule.may_start(boottime::now());
                let answer = match fd.filter(|_| in_time) {
                    Some(process) => {
                        self.guarded = Guarded::Process(process);
                        Message::Watching
                    }
                    None => Message::Refused(0),
                };
                self.say(answer);
            }
            Message::Watching | Message::Refused(_) | Message::Fired | Message::Over { .. } => {}
        }
    }

    /// `None` when the lease is about to end.
    fn adopt(&self, pid: u32, kind: JobKind) -> rustix::io::Result<Option<Guarded>> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        if !self.schedule.may_start(boottime::now()) {
            return Ok(None);
        }
        let processes = ProcessTree::open(pid.ok_or(Errno::SRCH)?, kind.own_group)?;
        Ok(Some(Guarded::Job {
            processes,
            holds_lock: kind.holds_lock,
        }))
    }

    /// Does what is due; returns the time of the next act.
    fn act(&mut self) -> Option<u64> {
        if !self.guarded.is_somebody() {
            return None;
        }
        loop {
            match self.schedule.next(boottime::now()) {
                Next::Wait(at) => {
                    if self.schedule.killed() {
                        self.guarded.kill();
                    }
                    return at;
                }
                Next::Signal => self.guarded.terminate(self.plan.signal),
                Next::Kill => self.guarded.kill(),
            }
            self.say(Message::Fired);
        }
    }

    /// Nothing is left to do, or nothing that we may do.
    fn is_over(&self) -> bool {
        let fired = self.schedule.fired();
        match self.wrapper {
            Wrapper::There => false,
            Wrapper::Finished => !fired || self.guarded.is_over_at_once() || self.guarded.is_gone(),
            // A job that holds the lock itself keeps it. But if the guardian has signalled, it also kills.
            Wrapper::Dead => (self.guarded.holds_lock() && !fired) || self.guarded.is_gone(),
        }
    }

    /// Whether to poll soon, since no event will tell that the last process of the job has gone.
    fn must_poll(&self, leader_ended: bool) -> bool {
        let is_alone = self.wrapper != Wrapper::There;
        self.guarded.is_somebody() && (self.schedule.killed() || is_alone && leader_ended)
    }

    fn sleep(&self, until: Option<u64>, leader_ended: bool) -> rustix::io::Result<()> {
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &timer_at(until))?;
        let mut fds = vec![PollFd::new(&self.timer, PollFlags::IN)];
        if self.wrapper == Wrapper::There {
            fds.push(PollFd::from_borrowed_fd(self.socket, PollFlags::IN));
        } else if let Some(pidfd) = self.guarded.pidfd().filter(|_| !leader_ended) {
            fds.push(PollFd::from_borrowed_fd(pidfd, PollFlags::IN));
        }
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn say(&self, message: Message) {
        // A wrapper that does not read it notices the job's end anyway.
        message.send(self.socket).ok();
    }
}
