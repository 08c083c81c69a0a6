//! Starts a wrapper with a job in a folder of its own, and checks what becomes of them.

use std::fs;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::procfs::{self, Stat};
use crate::wrapper::{Lease, PART};
use crate::{boottime, listener};

/// Far beyond what anything here takes: reached only by a test that fails.
const LIMIT: Duration = Duration::from_secs(30);

/// One scenario's processes; whatever is left of them ends with it.
pub(crate) struct Stage {
    pub(crate) folder: PathBuf,
    pub(crate) wrapper: Child,
    held: Vec<OwnedFd>,
}

impl Stage {
    /// A job given as a shell script, its standard input empty.
    pub(crate) fn script(lease: Lease, script: &str) -> Stage {
        Stage::command(lease, &["sh", "-c", script])
    }

    pub(crate) fn command(lease: Lease, command: &[&str]) -> Stage {
        let mut wrapper = Command::new(std::env::current_exe().unwrap());
        wrapper.arg(PART).args(lease.arguments()).args(command);
        Stage::start(wrapper)
    }

    /// A wrapper started by a shell, which may prepare things first: `"$@"` is the wrapper.
    pub(crate) fn behind(lease: Lease, shell: &str, script: &str) -> Stage {
        let mut command = Command::new("sh");
        command
            .args(["-c", shell, "sh"])
            .arg(std::env::current_exe().unwrap());
        command
            .arg(PART)
            .args(lease.arguments())
            .args(["sh", "-c", script]);
        Stage::start(command)
    }

    /// A wrapper and a job on a terminal; what is written to the pipe is typed.
    pub(crate) fn terminal(lease: Lease, job: &[&str]) -> (Stage, ChildStdin) {
        let program = std::env::current_exe().unwrap().display().to_string();
        let mut line = vec![program.clone(), PART.into()];
        line.extend(lease.arguments());
        if job == [listener::PART] {
            line.push(program);
        }
        line.extend(job.iter().map(|word| (*word).to_owned()));
        let mut command = Command::new("script");
        // script(1) may miss the end of a child that was stopped before, so the code goes to a file.
        // The trap is for shells which would end, once the wrapper has, of a ^C that both heard.
        let line = format!("trap : INT; {}; echo $? > code", line.join(" "));
        command
            .args(["-qec", &line, "/dev/null"])
            .env("SHELL", "/bin/sh") // the same for every user
            .stdin(Stdio::piped());
        let mut stage = Stage::start_with(command);
        let keys = stage.wrapper.stdin.take().unwrap();
        (stage, keys)
    }

    fn start(mut command: Command) -> Stage {
        command.stdin(Stdio::null());
        Stage::start_with(command)
    }

    fn start_with(mut command: Command) -> Stage {
        let number = boottime::now();
        let folder = std::env::temp_dir().join(format!("drill-{}-{number}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        command.current_dir(&folder).stdout(Stdio::null());
        let log = fs::File::create(folder.join("log")).unwrap();
        let wrapper = command.stderr(log).spawn().unwrap();
        Stage {
            folder,
            wrapper,
            held: Vec::new(),
        }
    }

    /// The process that wrote its number to a file of the folder.
    pub(crate) fn process(&mut self, file: &str) -> Process {
        let path = self.folder.join(file);
        let read = || {
            fs::read_to_string(&path)
                .ok()?
                .trim_end_matches('\n')
                .parse()
                .ok()
        };
        let mut pid = None;
        // The line's end tells that the number is whole.
        until(&format!("a process in {file}"), || {
            pid = fs::read_to_string(&path)
                .ok()
                .filter(|text| text.ends_with('\n'))
                .and(read());
            pid.is_some()
        });
        self.hold(pid.unwrap())
    }

    pub(crate) fn guardian(&mut self) -> Process {
        let wrapper = self.wrapper_process();
        let named = |pid: &i32| {
            let comm = fs::read_to_string(format!("/proc/{pid}/comm"));
            comm.is_ok_and(|comm| comm.trim() == "leaselock-guard")
        };
        let mut found = None;
        until("a guardian", || {
            found = procfs::children(wrapper.pid).into_iter().find(named);
            found.is_some()
        });
        self.hold(found.unwrap())
    }

    pub(crate) fn wrapper_process(&mut self) -> Process {
        let pid = i32::try_from(self.wrapper.id()).unwrap();
        self.hold(pid)
    }

    pub(crate) fn parent_of(&mut self, process: &Process) -> Process {
        let parent = Stat::of(process.pid.as_raw_pid()).unwrap().parent;
        self.hold(parent)
    }

    fn hold(&mut self, pid: i32) -> Process {
        let pid = Pid::from_raw(pid).unwrap();
        let fd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        self.held.push(fd.try_clone().unwrap());
        Process { pid, fd }
    }

    pub(crate) fn deadline(&self) -> u64 {
        fs::read_to_string(self.folder.join("deadline"))
            .unwrap()
            .parse()
            .unwrap()
    }

    pub(crate) fn has(&self, file: &str) -> bool {
        self.folder.join(file).exists()
    }

    pub(crate) fn wait_for(&self, file: &str) {
        until(file, || self.has(file));
    }

    /// How the wrapper ended.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let wrapper = self.wrapper_process();
        wrapper.end();
        self.wrapper.wait().unwrap()
    }

    pub(crate) fn code(&mut self) -> Option<i32> {
        self.end().code()
    }

    /// The exit code of a wrapper on a terminal.
    pub(crate) fn code_on_terminal(&mut self) -> i32 {
        let path = self.folder.join("code");
        let mut code = None;
        until("an exit code", || {
            let text = fs::read_to_string(&path).unwrap_or_default();
            code = text.strip_suffix('\n').and_then(|text| text.parse().ok());
            code.is_some()
        });
        code.unwrap()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: {}", self.folder.display(), self.log());
        }
        for fd in &self.held {
            pidfd_send_signal(fd, Signal::KILL).ok();
        }
        self.wrapper.kill().ok();
        self.wrapper.wait().ok();
        fs::remove_dir_all(&self.folder).ok();
    }
}

/// A process held by a pidfd, so that its number cannot pass to another one.
pub(crate) struct Process {
    pub(crate) pid: Pid,
    fd: OwnedFd,
}

impl Process {
    pub(crate) fn signal(&self, signal: Signal) {
        pidfd_send_signal(&self.fd, signal).unwrap();
    }

    /// Stops it, and comes back when it is stopped.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        until("a stopped process", || self.is_stopped());
    }

    pub(crate) fn is_stopped(&self) -> bool {
        testkit::process::is_stopped(self.pid.as_raw_pid().unsigned_abs())
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended_within(Duration::ZERO)
    }

    pub(crate) fn group(&self) -> i32 {
        Stat::of(self.pid.as_raw_pid()).unwrap().group
    }

    /// Waits for its end; gives a moment that is not before it.
    pub(crate) fn end(&self) -> u64 {
        assert!(self.ended_within(LIMIT), "process {} lives", self.pid);
        boottime::now()
    }

    fn ended_within(&self, limit: Duration) -> bool {
        let limit = Timespec::try_from(limit).unwrap();
        poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&limit)).unwrap() > 0
    }
}

/// Waits until something is the case.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = boottime::now() + boottime::nanoseconds(LIMIT);
    while !is_so() {
        assert!(boottime::now() < give_up, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2)); // between two checks of the condition
    }
}

/// Lets time pass until a moment of the lease's clock.
pub(crate) fn until_moment(moment: u64) {
    until("a moment", || boottime::now() >= moment);
}

pub(crate) fn type_keys(keys: &mut ChildStdin, text: &str) {
    keys.write_all(text.as_bytes()).unwrap();
    keys.flush().unwrap();
}

pub(crate) fn lines(path: &Path) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.lines().count())
}
