//! One process of the program under test.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};

use testkit::process::{self, Signal};
use testkit::{TempDir, tempdir};

use super::until;

/// A process that runs, killed when it is dropped. Its output goes to files, so that it can never
/// wait for a reader.
pub(crate) struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    output: TempDir,
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Done {
    /// The exit code; the negative number of the signal that killed it.
    pub(crate) code: i32,
    pub(crate) bytes: Vec<u8>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Running {
    #[track_caller]
    pub(crate) fn start(mut command: Command) -> Running {
        let output = tempdir().unwrap();
        let file = |name| fs::File::create(output.path().join(name)).unwrap();
        command
            .stdin(Stdio::piped())
            .stdout(file("out"))
            .stderr(file("err"));
        let mut child = command.spawn().unwrap();
        Running {
            stdin: child.stdin.take(),
            child,
            output,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn write(&mut self, input: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
    }

    /// Its standard input, which stays open as long as this is kept.
    pub(crate) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// To this process alone, not to what it started.
    #[track_caller]
    pub(crate) fn signal(&self, signal: Signal) {
        assert!(process::signal(self.pid(), signal));
    }

    /// Stops it, and comes back when it is stopped.
    #[track_caller]
    pub(crate) fn stop(&self) {
        assert!(process::stop(self.pid()));
    }

    #[track_caller]
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.child.wait().unwrap();
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Closes its standard input and waits for its end.
    #[track_caller]
    pub(crate) fn end(mut self) -> Done {
        self.close_stdin();
        self.end_with_stdin_open()
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn end_with_stdin_open(mut self) -> Done {
        until("the end of a process", || self.has_ended());
        let status = self.child.wait().unwrap();
        let code = status.code().or_else(|| status.signal().map(|n| -n));
        let bytes = self.read("out");
        Done {
            code: code.unwrap(),
            out: String::from_utf8_lossy(&bytes).into_owned(),
            err: self.said(),
            bytes,
        }
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.output.path().join(name)).unwrap()
    }

    /// What it wrote to standard error so far.
    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&self.read("err")).into_owned()
    }

    /// What it wrote to standard output so far.
    pub(crate) fn printed(&self) -> String {
        String::from_utf8_lossy(&self.read("out")).into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Done {
    /// Ended with this code.
    #[track_caller]
    pub(crate) fn gives(self, code: i32) -> Done {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// Ended with this code, said this on standard error and printed nothing.
    #[track_caller]
    pub(crate) fn refuses(self, code: i32, words: &str) -> Done {
        assert!(self.err.contains(words), "no {words:?}: {self:?}");
        assert_eq!(self.out, "");
        self.gives(code)
    }
}
