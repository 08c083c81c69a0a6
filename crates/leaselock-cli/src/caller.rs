//! What ends a hold from outside: its input, its parent, and the process that it is held for.

use std::io::{self, BufRead as _, IsTerminal as _, stdin};
use std::os::fd::{AsFd as _, OwnedFd};
use std::thread::Builder;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpgid, getpgrp, getppid, pidfd_open, pidfd_send_signal,
    test_kill_process,
};
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;
use crate::process::watch_readable;
use crate::signals::{ReceivedSignal, stop_here};
use crate::supervise::Work;

/// Why a hold is over, but for a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    InputEnded,
    Released,
    ParentEnded,
    /// The process of `--kill`.
    ProcessEnded,
}

impl Ending {
    pub(crate) fn in_words(self) -> String {
        match self {
            Ending::InputEnded => {
                "standard input has ended; a hold lasts while it is open".to_owned()
            }
            Ending::Released => "standard input says release".to_owned(),
            Ending::ParentEnded => "the process that started it has ended".to_owned(),
            Ending::ProcessEnded => "the process of --kill has ended".to_owned(),
        }
    }
}

/// Processes as they were at the start, which no later one is taken for.
pub(crate) struct Processes {
    /// `None` if it has ended already.
    parent: Option<OwnedFd>,
    /// The process of `--kill`.
    killed: Option<OwnedFd>,
    /// True if it is in the group of this one, to which a terminal sends its signals.
    hears_terminal: bool,
}

impl Processes {
    /// To be called at once: until then a number may pass to another process.
    pub(crate) fn find(kill: Option<u32>) -> Result<Processes, Failure> {
        Ok(Processes {
            parent: parent()?,
            killed: kill.map(to_kill).transpose()?,
            hears_terminal: kill.is_some_and(is_in_this_group),
        })
    }

    /// A copy of the descriptor of the process of `--kill`.
    pub(crate) fn killed(&self) -> io::Result<Option<OwnedFd>> {
        self.killed.as_ref().map(OwnedFd::try_clone).transpose()
    }
}

/// The parent, which is asked for a second time in case that it ended meanwhile and another took its place. A parent
/// outside of a container has no number in it; then the input alone tells that it has ended.
fn parent() -> io::Result<Option<OwnedFd>> {
    let Some(pid) = getppid() else {
        return Ok(Some(never()?));
    };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(held) => Ok((getppid() == Some(pid)).then_some(held)),
        Err(Errno::SRCH) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Never readable.
fn never() -> io::Result<OwnedFd> {
    let flags = rustix::event::EventfdFlags::CLOEXEC;
    Ok(rustix::event::eventfd(0, flags)?)
}

fn is_in_this_group(pid: u32) -> bool {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    number.is_some_and(|pid| getpgid(Some(pid)).ok() == Some(getpgrp()))
}

fn to_kill(pid: u32) -> Result<OwnedFd, Failure> {
    let usage = |text: String| Failure::new(format!("--kill: {text}"), Exit::USAGE);
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let missing = || {
        usage(format!(
            "there is no process {pid}; give the number of one that runs, such as $$"
        ))
    };
    let number = raw.ok_or_else(missing)?;
    if pid == 1 {
        let text = "the kernel lets no process of a container kill its process 1; start the program below an init, as \
                    `docker run --init` does";
        return Err(usage(text.to_owned()));
    }
    match pidfd_open(number, PidfdFlags::empty())
        .and_then(|held| test_kill_process(number).map(|()| held))
    {
        Ok(held) => Ok(held),
        Err(Errno::SRCH) => Err(missing()),
        Err(Errno::PERM) => {
            let text = format!(
                "--kill: process {pid} belongs to another user; give one that this user may end"
            );
            Err(Failure::new(text, Exit::REFUSED))
        }
        Err(error) => Err(io::Error::from(error).into()),
    }
}

/// Who asks for the hold, and may end it.
pub(crate) struct Caller {
    input: Option<oneshot::Receiver<Ending>>,
    parent: Option<AsyncFd<OwnedFd>>,
    killed: Option<AsyncFd<OwnedFd>>,
    hears_terminal: bool,
    ending: Option<Ending>,
}

impl Caller {
    /// Starts to listen; inside a runtime. A terminal is not read: a job in the background would be stopped for it.
    pub(crate) fn listen(processes: Processes) -> io::Result<Caller> {
        let input = match stdin().is_terminal() {
            true => None,
            false => Some(listen_to_input()?),
        };
        let watched = |process: Option<OwnedFd>| process.map(watch_readable).transpose();
        Ok(Caller {
            input,
            ending: processes.parent.is_none().then_some(Ending::ParentEnded),
            parent: watched(processes.parent)?,
            killed: watched(processes.killed)?,
            hears_terminal: processes.hears_terminal,
        })
    }

    /// Completes when the hold is to end. Cancel safe; the same every time that it is asked again.
    pub(crate) async fn ending(&mut self) -> io::Result<Ending> {
        if let Some(ending) = self.ending {
            return Ok(ending);
        }
        let ending = tokio::select! {
            biased;
            ended = ended(self.killed.as_ref()) => ended.map(|()| Ending::ProcessEnded)?,
            ended = ended(self.parent.as_ref()) => ended.map(|()| Ending::ParentEnded)?,
            said = heard(self.input.as_mut()) => said,
        };
        self.ending = Some(ending);
        Ok(ending)
    }

    /// From the grant on the process of --kill may be at work, whether the parent lives or not.
    pub(crate) fn leave_parent(&mut self) {
        self.parent = None;
    }

    fn signal(&self, signal: Signal) {
        if let Some(killed) = &self.killed {
            pidfd_send_signal(killed.as_fd(), signal).ok(); // one that has ended does not need it
        }
    }
}

async fn ended(process: Option<&AsyncFd<OwnedFd>>) -> io::Result<()> {
    match process {
        Some(process) => process.readable().await.map(drop),
        None => std::future::pending().await,
    }
}

async fn heard(input: Option<&mut oneshot::Receiver<Ending>>) -> Ending {
    match input {
        Some(input) => input.await.unwrap_or(Ending::InputEnded),
        None => std::future::pending().await,
    }
}

/// A thread reads, because a file and `/dev/null` cannot be waited for otherwise.
fn listen_to_input() -> io::Result<oneshot::Receiver<Ending>> {
    let (say, heard) = oneshot::channel();
    Builder::new().spawn(move || say.send(read_input()))?;
    Ok(heard)
}

fn read_input() -> Ending {
    let (mut input, mut line) = (stdin().lock(), Vec::new());
    loop {
        let is_over = match input.read_until(b'\n', &mut line) {
            Ok(count) => count == 0,
            // Another program that shares the pipe may have made it non-blocking. What was read of a line stays.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let its = stdin();
                poll(&mut [PollFd::new(&its, PollFlags::IN)], None).ok();
                continue;
            }
            Err(_) => true,
        };
        match line.trim_ascii() {
            b"release" => return Ending::Released,
            b"" => {}
            other => {
                let other = output::sanitized(&String::from_utf8_lossy(other));
                let text = format!(
                    "leaselock: standard input: `{other}` says nothing here; the line `release` ends the hold\n"
                );
                output::say(&text);
            }
        }
        if is_over {
            return Ending::InputEnded;
        }
        line.clear();
    }
}

/// With `--kill` it is ended when the lease is lost.
impl Work for Caller {
    type End = ();

    async fn ended(&mut self) -> io::Result<()> {
        self.ending().await.map(drop)
    }

    fn terminate(&mut self, signal: Signal) {
        self.signal(signal);
        self.signal(Signal::CONT);
    }

    fn kill(&mut self) {
        self.signal(Signal::KILL);
    }

    /// That of another user was refused before.
    fn obeys(&self) -> bool {
        true
    }

    fn hear(&mut self, received: ReceivedSignal) {
        match received.signal {
            Signal::TSTP => stop_here(),
            // The process may be at work until it has ended, so the signal is passed on, as to a job. One of a terminal
            // reaches its whole foreground group, and a terminal that hangs up is no matter of a process outside of it.
            Signal::HUP if received.from_terminal => {}
            _ if received.from_terminal && self.hears_terminal => {}
            signal if received.ends_a_wait() => self.signal(signal),
            _ => {}
        }
    }

    /// The program says itself when its work is over.
    fn is_gone(&self) -> bool {
        true
    }

    fn reap(self) -> io::Result<()> {
        Ok(())
    }
}
