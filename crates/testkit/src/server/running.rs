//! A running server: what it is asked, and what is done to its process.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use super::launch::{self, Launch, PATIENCE};
use super::{shifted, slow_disk};
use crate::process::{self, Signal, wait_until};
use crate::resp::{Connection, Value};

/// A running server. It can be paused, killed and started again on the same port; it dies on drop.
#[derive(Debug)]
pub struct Server {
    pub(super) launch: Launch,
    pub(super) port: u16,
    pub(super) dir: TempDir,
    pub(super) child: Mutex<Child>,
}

impl Server {
    /// `redis://127.0.0.1:PORT/`, with the password if there is one.
    pub fn url(&self) -> String {
        let user = self
            .launch
            .password
            .as_ref()
            .map(|password| format!(":{password}@"));
        format!(
            "redis://{}127.0.0.1:{}/",
            user.unwrap_or_default(),
            self.port
        )
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The password that it asks for, if it does.
    pub(crate) fn password(&self) -> Option<String> {
        self.launch.password.clone()
    }

    /// The port for TLS on 127.0.0.1, if one was asked for.
    pub fn tls_port(&self) -> Option<u16> {
        self.launch.tls_port
    }

    /// The port on which others of its set-up reach it, and of which they tell clients.
    pub fn reached_at(&self) -> u16 {
        let secured = self.launch.tls_port.filter(|_| self.launch.tls_among);
        secured.unwrap_or(self.port)
    }

    /// The unix socket, if one was asked for.
    pub fn socket(&self) -> Option<&Path> {
        self.launch.socket.as_deref()
    }

    /// The folder with the server's log, and its append-only file if there is one.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The program that runs.
    pub fn binary(&self) -> &PathBuf {
        &self.launch.binary
    }

    /// The process that runs now, or the one that was killed last.
    pub fn pid(&self) -> u32 {
        self.child().id()
    }

    /// Runs one command on a connection of its own; panics when no answer comes.
    #[track_caller]
    pub fn cli(&self, args: &[&str]) -> Value {
        match self.try_cli(args) {
            Ok(value) => value,
            Err(error) => panic!("{args:?} on port {}: {error}", self.port),
        }
    }

    /// As [`Server::cli`], for a server that may be down.
    pub fn try_cli(&self, args: &[&str]) -> io::Result<Value> {
        self.connect()?.call(args)
    }

    /// A connection that is logged in, for commands that belong together.
    pub fn connect(&self) -> io::Result<Connection> {
        launch::connect(self.port, self.launch.password.as_deref())
    }

    /// Stops the process in its tracks until the guard is dropped. Connections stay open.
    pub fn pause(&self) -> Paused<'_> {
        let pid = self.pid();
        assert!(process::stop(pid), "server {pid} is gone");
        Paused { server: self }
    }

    /// Lets a paused server run on.
    pub fn resume(&self) {
        process::signal(self.pid(), Signal::CONT);
    }

    /// Kills the process with SIGKILL and waits for its end: nothing more is written or answered.
    pub fn kill(&self) {
        let mut child = self.child();
        // Both fail only when the process has ended already, which is what is wanted.
        drop(child.kill());
        drop(child.wait());
    }

    /// Kills the process if it still runs, and starts a new one on the same port and folder.
    pub fn restart(&self) {
        self.kill();
        // An outgoing connection of another process may have the port for a moment.
        wait_until(PATIENCE, "the server is back on its port", || {
            if let Ok(child) = self.launch.spawn(self.port, self.dir.path()) {
                *self.child() = child;
            }
            process::is_alive(self.pid())
        });
    }

    /// Moves the wall clock that the server sees to this far from the true one, at once and without a message.
    ///
    /// # Panics
    ///
    /// Without [`super::Builder::shifted_clock`].
    pub fn set_clock_offset_ms(&self, milliseconds: i64) {
        assert!(self.launch.shifted, "ask the builder for a shifted clock");
        shifted::set(self.dir.path(), milliseconds).expect("the server's folder can be written");
    }

    /// Each flush to the disk takes at least so long from the next one on. What is written reaches the system's cache as
    /// fast as ever.
    ///
    /// # Panics
    ///
    /// Without [`super::Builder::slow_disk`].
    pub fn set_disk_delay(&self, delay: Duration) {
        assert!(self.launch.slow_disk, "ask the builder for a slow disk");
        slow_disk::set(self.dir.path(), delay).expect("the server's folder can be written");
    }

    /// One number of `INFO`, such as `aof_pending_bio_fsync` in the section `persistence`.
    pub fn info_number(&self, section: &str, field: &str) -> Option<u64> {
        let info = self.cli(&["INFO", section]);
        let mut lines = info.text()?.lines();
        let value = lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value?.trim_end().parse().ok()
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A paused server; it runs on when this is dropped.
#[derive(Debug)]
#[must_use = "dropping the guard lets the server run on"]
pub struct Paused<'a> {
    server: &'a Server,
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.server.resume();
    }
}
