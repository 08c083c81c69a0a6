//! The user's command: started under the guardian, signalled as a whole, waited for.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, getppid, kill_process,
    set_parent_process_death_signal, setpgid, test_kill_process, waitid, waitpid,
};
use rustix::stdio::dup2_stdout;
use tokio::io::unix::AsyncFd;

use crate::exit::Exit;
use crate::guardian::{Channel, JobKind, Refusal};
use crate::process::{Program, SignalSet, watch_readable};
use crate::process_tree::ProcessTree;
use crate::signals::{BLOCKED, ReceivedSignal, stop_here};
use crate::supervise::Work;

/// Which command to start, and under which lease.
#[derive(Debug)]
pub(crate) struct JobSpec<'a> {
    pub(crate) program: &'a OsStr,
    /// Passed on byte for byte.
    pub(crate) arguments: &'a [OsString],
    pub(crate) name: &'a str,
    pub(crate) fence: Option<u64>,
    /// True if the job runs as a leader, whose fence is a term.
    pub(crate) leads: bool,
    /// Of several names: a line with the fence and the name for each.
    pub(crate) fences: Option<String>,
    /// A line with the sequencer for each name.
    pub(crate) sequencers: Option<String>,
    /// When the job was due.
    pub(crate) tick: Option<String>,
    pub(crate) ttl: Duration,
    /// The descriptor that keeps the lock, open across exec, when the job is to inherit it.
    pub(crate) session: Option<OwnedFd>,
    /// The standard output of the job; `None`: ours.
    pub(crate) output: Option<OwnedFd>,
    /// What a `run` in the job inherits.
    pub(crate) owner: Option<String>,
    /// The job must not get the URL of the store; its environment has a mark instead.
    pub(crate) withhold_url: bool,
    /// The lock is released at a fixed time, so the job must not outlive its wrapper, even
    /// though it has the descriptor.
    pub(crate) limited: bool,
}

/// A job that runs, or has ended and is not reaped.
pub(crate) struct Job {
    leader: Pid,
    processes: ProcessTree,
    end: AsyncFd<OwnedFd>,
    own_group: bool,
}

/// Why the command does not run.
#[derive(Debug)]
pub(crate) enum CannotStart {
    NotFound,
    CannotExecute(io::Error),
    /// The lease was about to end; the command did not run.
    TooLate,
    /// The guardian is dead or does not answer; the command did not run.
    Unguarded,
    /// The machine has no room for another process.
    System(io::Error),
}

impl CannotStart {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            CannotStart::NotFound => Exit::NOT_FOUND,
            CannotStart::CannotExecute(_) => Exit::CANNOT_EXECUTE,
            CannotStart::TooLate => Exit::LOST,
            CannotStart::Unguarded => Exit::INTERNAL,
            CannotStart::System(_) => Exit::SYSTEM,
        }
    }

    /// The guardian did not take a descriptor.
    pub(crate) fn from_keep(error: io::Error) -> CannotStart {
        match Errno::from_io_error(&error) {
            Some(Errno::PIPE | Errno::CONNRESET | Errno::AGAIN) => CannotStart::Unguarded,
            _ => CannotStart::System(error),
        }
    }

    fn from_start(error: io::Error) -> CannotStart {
        match Errno::from_io_error(&error) {
            Some(TOO_LATE) => CannotStart::TooLate,
            Some(UNGUARDED) => CannotStart::Unguarded,
            Some(Errno::NOENT) => CannotStart::NotFound,
            Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) | None => {
                CannotStart::System(error)
            }
            Some(_) => CannotStart::CannotExecute(error),
        }
    }
}

/// A process that has not become the command returns only a number. exec never returns these two.
const TOO_LATE: Errno = Errno::CANCELED;
const UNGUARDED: Errno = Errno::OWNERDEAD;

/// The guardian's error, if a start may fail with it too. The command's user understands no other of its errors.
fn lacking(why: u32) -> Errno {
    let known = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN];
    let is_it = |errno: &Errno| errno.raw_os_error().unsigned_abs() == why;
    known.into_iter().find(is_it).unwrap_or(UNGUARDED)
}

impl Job {
    /// Starts the command. From the main thread, because the kernel ties `PR_SET_PDEATHSIG` to
    /// the life of the thread that forked; and while no other task reads from `channel`.
    pub(crate) fn start(
        spec: &JobSpec<'_>,
        channel: Channel,
        mask: SignalSet,
    ) -> Result<Job, CannotStart> {
        // On a terminal the job must be in the foreground group, which is ours, or it could not
        // read. Otherwise a group of its own lets us signal it as a whole.
        let own_group = !io::stdin().is_terminal();
        let kind = JobKind {
            own_group,
            holds_lock: spec.session.is_some() && !spec.limited,
        };
        let program = program(spec).map_err(CannotStart::CannotExecute)?;
        let wrapper = getpid();
        // Runs between clone and exec: five system calls on plain numbers. The channel's counter and
        // descriptor belong to the parent and are not touched.
        let mut step = || {
            if own_group {
                setpgid(None, None)?;
            }
            if !kind.holds_lock {
                // A second line of defence, for the case that the guardian dies with the wrapper.
                set_parent_process_death_signal(Some(Signal::TERM))?;
                if getppid() != Some(wrapper) {
                    return Err(UNGUARDED);
                }
            }
            channel.enlist(kind).map_err(|refusal| match refusal {
                Refusal::TooLate => TOO_LATE,
                Refusal::Unguarded => UNGUARDED,
                Refusal::Blind(why) => lacking(why),
            })?;
            if let Some(output) = &spec.output {
                dup2_stdout(output)?;
            }
            // Last, so that a signal that waited for us is the command's and not ours.
            mask.become_mask();
            Ok(())
        };
        let leader = program.start(&mut step).map_err(CannotStart::from_start)?;
        match watch(leader, own_group) {
            Ok((processes, end)) => Ok(Job {
                leader,
                processes,
                end,
                own_group,
            }),
            Err(error) => {
                // The command runs already, but its end could not be noticed.
                kill_process(leader, Signal::KILL)
                    .and_then(|()| end_of(leader))
                    .ok();
                Err(CannotStart::System(error))
            }
        }
    }
}

impl Work for Job {
    type End = ExitStatus;

    /// Waits for the end of the command, and leaves it unreaped: its number stays its own.
    async fn ended(&mut self) -> io::Result<()> {
        loop {
            let mut ready = self.end.readable().await?;
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            if waitid(WaitId::PidFd(self.processes.pidfd()), options)?.is_some() {
                return Ok(());
            }
            ready.clear_ready();
        }
    }

    fn terminate(&mut self, signal: Signal) {
        self.processes.terminate(signal);
    }

    fn obeys(&self) -> bool {
        test_kill_process(self.leader) != Err(Errno::PERM)
    }

    fn kill(&mut self) {
        self.processes.kill();
    }

    fn is_gone(&self) -> bool {
        self.processes.is_gone()
    }

    /// Gives the job the signal that was meant for it.
    ///
    /// On a terminal, job and wrapper share the foreground group, and what the terminal sends has
    /// reached both: a second Ctrl-C would be a different message to many programs.
    fn hear(&mut self, received: ReceivedSignal) {
        let ReceivedSignal {
            signal,
            from_terminal,
        } = received;
        let missed_it = self.own_group || !from_terminal;
        match signal {
            Signal::USR1 | Signal::USR2 if missed_it => self.processes.signal_leader(signal),
            // What ends or stops the leader alone would leave the rest of the job running.
            _ if missed_it => self.processes.signal(signal),
            _ => {}
        }
        if signal == Signal::TSTP {
            stop_here();
        }
    }

    /// Gives the number of the command back to the kernel.
    fn reap(self) -> io::Result<ExitStatus> {
        Ok(end_of(self.leader)?)
    }
}

/// The URL of the store, unless an argument gives it.
pub(crate) const URL: &str = "LEASELOCK_URL";
/// Names the owner of the lock to a `run` in the job.
pub(crate) const OWNER: &str = "LEASELOCK_OWNER";
/// Names the descriptor from which a service reads the URLs when it has begun anew.
pub(crate) const HANDED_OVER: &str = "LEASELOCK_URLS_FROM";
/// Names the variable that was removed from the environment of a job.
pub(crate) const WITHHELD: &str = "LEASELOCK_WITHHELD";

fn program(spec: &JobSpec<'_>) -> io::Result<Program> {
    // A handle is for `extend` and `release`, and every process that reads it can release the lock. The job would take
    // the fence of an outer `run` for ours.
    const OURS: [&str; 12] = [
        "LEASELOCK_NAME",
        "LEASELOCK_TTL_MS",
        "LEASELOCK_FENCE",
        "LEASELOCK_TERM",
        "LEASELOCK_FENCES",
        "LEASELOCK_SEQUENCER",
        "LEASELOCK_TICK",
        "LEASELOCK_HANDLE",
        WITHHELD,
        OWNER,
        HANDED_OVER,
        BLOCKED,
    ];
    let others = std::env::vars_os().filter(|(name, _)| {
        let is_ours = OURS.iter().any(|ours| name == ours);
        let is_withheld = spec.withhold_url && name == URL;
        !is_ours && !is_withheld
    });
    let told = [
        (OURS[0], Some(spec.name.to_owned())),
        (OURS[1], Some(spec.ttl.as_millis().to_string())),
        (OURS[2], spec.fence.map(|fence| fence.to_string())),
        (
            OURS[3],
            spec.fence
                .filter(|_| spec.leads)
                .map(|term| term.to_string()),
        ),
        (OURS[4], spec.fences.clone()),
        (OURS[5], spec.sequencers.clone()),
        (OURS[6], spec.tick.clone()),
        (OWNER, spec.owner.clone()),
        (WITHHELD, spec.withhold_url.then(|| URL.to_owned())),
    ];
    let told = told
        .into_iter()
        .filter_map(|(name, value)| Some((name.into(), value?.into())));
    Program::new(spec.program, spec.arguments, others.chain(told))
}

/// Waits for a process of ours and takes its number back.
fn end_of(leader: Pid) -> rustix::io::Result<ExitStatus> {
    loop {
        let ended = retry_on_intr(|| waitpid(Some(leader), WaitOptions::empty()))?;
        if let Some((_, status)) = ended {
            return Ok(ExitStatus::from_raw(status.as_raw()));
        }
    }
}

fn watch(leader: Pid, own_group: bool) -> io::Result<(ProcessTree, AsyncFd<OwnedFd>)> {
    let processes = ProcessTree::open(leader, own_group)?;
    let end = watch_readable(processes.pidfd().try_clone_to_owned()?)?;
    Ok((processes, end))
}
