//! The test program itself as a child process: so that locks are tried between processes, and a process can be killed.

use std::io::Read;
use std::process::{Command, Stdio};

use crate::process::{self, Signal};

const WORDS: &str = "LEASELOCK_TEST_CHILD";
/// The test that a child runs, in every test program that has children.
const TEST: &str = "child::obeys_its_parent";

/// A process of this test program that does what its parent says. It is killed with its value.
#[derive(Debug)]
pub struct Child(std::process::Child);

impl Child {
    /// Starts a child. Its test `child::obeys_its_parent` finds `order` and `words` by [`Child::words`].
    pub fn start(order: &str, words: &[&str]) -> Child {
        let words = [&[order], words].concat().join("\n");
        let child = Command::new(std::env::current_exe().expect("a test program has a path"))
            .args(["--exact", TEST, "--nocapture"])
            .env(WORDS, words)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        Child(child.expect("a test program can be started"))
    }

    /// In the test that a child runs: what its parent said. `None` when this is no child, and there is nothing to do.
    ///
    /// From here on the child ends when its parent does.
    pub fn words() -> Option<Vec<String>> {
        let words = std::env::var(WORDS).ok()?;
        std::thread::spawn(|| {
            drop(std::io::stdin().read_to_end(&mut Vec::new()));
            process::signal(std::process::id(), Signal::KILL);
        });
        Some(words.split('\n').map(str::to_owned).collect())
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Sends a signal.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        assert!(process::signal(self.id(), signal), "a child has ended");
    }

    /// Stops it, and comes back when all its threads stand still.
    #[track_caller]
    pub fn stop(&self) {
        assert!(process::stop(self.id()), "a child has ended");
    }

    /// Kills it. A child that has ended before has failed.
    #[track_caller]
    pub fn kill(&mut self) {
        let ended = self.0.try_wait().expect("it is a child");
        assert_eq!(ended, None, "a child has ended by itself");
        self.0.kill().expect("it is a child");
        self.0.wait().expect("it is a child");
    }

    /// Waits for its end, which is to be a good one.
    #[track_caller]
    pub fn ends_well(mut self) {
        let _its_parent_lives = self.0.stdin.take(); // `wait` would close it
        let status = self.0.wait().expect("it is a child");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
