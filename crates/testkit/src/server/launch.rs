//! Starting the process, and being sure that it is ours that answers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{shifted, slow_disk};
use crate::clock;
use crate::resp::{Connection, Value};

/// How long a server may take for what it does at once on an idle machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// What stays the same when a server is started again.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) binary: PathBuf,
    pub(super) config: Vec<String>,
    pub(super) socket: Option<PathBuf>,
    pub(super) password: Option<String>,
    /// It is a Sentinel, and these are the lines that make it one.
    pub(super) sentinel: Option<String>,
    /// Its wall clock can be moved.
    pub(super) shifted: bool,
    /// Its disk can be made slow.
    pub(super) slow_disk: bool,
    pub(super) tls_port: Option<u16>,
    /// Its fellows reach it on that one.
    pub(super) tls_among: bool,
}

impl Launch {
    /// Starts the server and waits until it answers; the error is its log.
    pub(super) fn spawn(&self, port: u16, dir: &Path) -> Result<Child, String> {
        let log = dir.join("server.log");
        let mut command = match &self.sentinel {
            None => self.server(port, dir, &log),
            Some(lines) => self.watcher(lines, port, dir, &log)?,
        };
        if self.shifted {
            shifted::apply(&mut command, dir);
        }
        if self.slow_disk {
            slow_disk::apply(&mut command, dir);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        if self.comes_up(&mut child, port) {
            return Ok(child);
        }
        // Both fail only when the process has ended already.
        drop(child.kill());
        drop(child.wait());
        Err(fs::read_to_string(&log).unwrap_or_else(|error| format!("no log: {error}")))
    }

    fn server(&self, port: u16, dir: &Path, log: &Path) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(["--port", &port.to_string()]);
        command.args(["--bind", "127.0.0.1", "--save", ""]);
        // A replica is in step at once; otherwise a primary waits some seconds for more of them.
        command.args(["--repl-diskless-sync-delay", "0"]);
        command.arg("--dir").arg(dir).arg("--logfile").arg(log);
        command.args(&self.config);
        if let Some(socket) = &self.socket {
            command.arg("--unixsocket").arg(socket);
        }
        if let Some(port) = self.tls_port {
            command.args(["--tls-port", &port.to_string()]);
        }
        if let Some(password) = &self.password {
            // The second for the day when it follows another: all servers of a group have the same.
            command.args(["--requirepass", password, "--masterauth", password]);
        }
        command
    }

    /// The file is written once: later it holds what the Sentinel has learned.
    fn watcher(&self, lines: &str, port: u16, dir: &Path, log: &Path) -> Result<Command, String> {
        let file = dir.join(format!("sentinel-{port}.conf"));
        if !file.exists() {
            let mut text = format!(
                "port {port}\nbind 127.0.0.1\ndir {}\nlogfile {}\n{lines}",
                dir.display(),
                log.display()
            );
            let (directives, _) = self.config.as_chunks::<2>();
            for [directive, value] in directives {
                text.push_str(&format!("{} {value}\n", directive.trim_start_matches("--")));
            }
            if let Some(port) = self.tls_port {
                text.push_str(&format!("tls-port {port}\n"));
            }
            if let Some(password) = &self.password {
                text.push_str(&format!("requirepass {password}\n"));
            }
            fs::write(&file, text).map_err(|error| error.to_string())?;
        }
        let mut command = Command::new(&self.binary);
        command.arg(file).arg("--sentinel");
        Ok(command)
    }

    fn comes_up(&self, child: &mut Child, port: u16) -> bool {
        let deadline = clock::now() + PATIENCE;
        while clock::now() < deadline && matches!(child.try_wait(), Ok(None)) {
            if self.is_ours(child.id(), port).unwrap_or(false) {
                return true;
            }
            // A server needs some milliseconds to come up.
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }

    /// A stranger may listen on the port: only the server whose process number is right counts.
    /// PING fails while an append-only file is being loaded; INFO does not.
    fn is_ours(&self, pid: u32, port: u16) -> io::Result<bool> {
        let mut connection = connect(port, self.password.as_deref())?;
        let info = connection.call(&["INFO", "server"])?;
        let line = format!("process_id:{pid}");
        let ours = info
            .text()
            .is_some_and(|text| text.lines().any(|l| l.trim_end() == line));
        Ok(ours && connection.call(&["PING"])? == Value::Status("PONG".into()))
    }
}

pub(super) fn connect(port: u16, password: Option<&str>) -> io::Result<Connection> {
    let mut connection = Connection::open(port, Duration::from_secs(5))?;
    if let Some(password) = password {
        connection.call(&["AUTH", password])?;
    }
    Ok(connection)
}
