//! A server of SQL of the test's own, and sessions in which a test says one statement after the other.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testkit::{TempDir, tempdir, wait_until};

/// The user `nobody`: neither server runs as root.
const NOBODY: u32 = 65534;
const END: &str = "-- end of the reply";
/// With these the client of MariaDB says that the connection has ended; that of PostgreSQL ends itself.
const GONE: [&str; 2] = ["ERROR 2006", "ERROR 2013"];

/// How a server is started and talked to.
pub(super) struct Programs {
    pub(super) name: &'static str,
    /// What Debian calls the packages.
    pub(super) packages: &'static str,
    /// Each is found at one of these places.
    pub(super) places: &'static [&'static str],
    pub(super) all: [&'static str; 3],
    /// The arguments to create a database in the folder, to serve it and to talk to it.
    pub(super) create: fn(&Path) -> Vec<String>,
    pub(super) serve: fn(&Path) -> Vec<String>,
    pub(super) talk: fn(&Path) -> Vec<String>,
    /// The line at which the client prints [`END`], also in a transaction that has failed.
    pub(super) print_end: &'static str,
    /// The signal at which the server ends at once, as after a crash.
    pub(super) crash: Signal,
}

/// A server that runs, in a folder of its own without a network port. It ends with this value.
pub(super) struct Database {
    programs: &'static Programs,
    folder: TempDir,
    serve: Command,
    server: Child,
    talk: Command,
}

impl Database {
    /// Starts a server; `None` where it is not installed, unless `CI` says that nothing may be left out.
    pub(super) fn start(programs: &'static Programs) -> Option<Database> {
        let found: Option<Vec<PathBuf>> =
            programs.all.iter().map(|one| find(programs, one)).collect();
        let Some(found) = found else {
            let must = std::env::var("CI").is_ok_and(|ci| ci == "true");
            let Programs { name, packages, .. } = programs;
            assert!(
                !must,
                "{name} is missing (Debian: {packages}): nothing may be skipped where CI=true"
            );
            println!("SKIPPED: {name} is not installed (Debian: {packages})");
            return None;
        };
        let folder = tempdir().unwrap();
        let path = folder.path();
        if rustix::process::geteuid().is_root() {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let create = command(&found[0], (programs.create)(path), path)
            .output()
            .unwrap();
        let log = || std::fs::read_to_string(path.join("log")).unwrap_or_default();
        assert!(create.status.success(), "{create:?}: {}", log());
        let mut serve = command(&found[1], (programs.serve)(path), path);
        let server = serve.spawn().unwrap();
        let mut talk = Command::new("sh");
        // Errors are part of the reply.
        talk.args(["-c", "exec \"$0\" \"$@\" 2>&1"])
            .arg(&found[2])
            .args((programs.talk)(path));
        let mut database = Database {
            programs,
            folder,
            serve,
            server,
            talk,
        };
        database.wait_until_it_serves();
        Some(database)
    }

    fn wait_until_it_serves(&mut self) {
        let name = self.programs.name;
        wait_until(Duration::from_secs(60), "the server of SQL", || {
            let exited = self.server.try_wait().unwrap();
            assert!(exited.is_none(), "{name}: {}", self.log());
            let mut session = self.session();
            session.send(&["SELECT 'ready'".to_owned()]);
            session.try_reply().is_some_and(|reply| reply == ["ready"])
        });
    }

    /// Ends the server in the middle of what it does.
    pub(super) fn crash(&mut self) {
        let server = Pid::from_child(&self.server);
        kill_process(server, self.programs.crash).unwrap();
        self.server.wait().unwrap();
    }

    /// Starts the server again, with the data that it has on disk.
    pub(super) fn restart(&mut self) {
        self.server = self.serve.spawn().unwrap();
        self.wait_until_it_serves();
    }

    pub(super) fn session(&self) -> Session {
        let mut talk = Command::new(self.talk.get_program());
        talk.args(self.talk.get_args())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut client = talk.spawn().unwrap();
        let (input, output) = (client.stdin.take().unwrap(), client.stdout.take().unwrap());
        let output = BufReader::new(output);
        Session {
            client,
            input,
            output,
            print_end: self.programs.print_end,
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        drop(self.server.kill());
        drop(self.server.wait());
    }
}

/// One connection, as a program that talks to the server.
pub(super) struct Session {
    client: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    print_end: &'static str,
}

impl Session {
    /// Sends statements without waiting for the reply.
    pub(super) fn send(&mut self, statements: &[String]) {
        let mut text = String::new();
        for statement in statements {
            text.push_str(&statement.replace('\n', " "));
            text.push_str(";\n");
        }
        text.push_str(self.print_end);
        drop(self.input.write_all(text.as_bytes())); // a client that has ended shows in the reply
    }

    /// The lines of the reply to all statements that were sent together; `None` when the connection has ended.
    pub(super) fn try_reply(&mut self) -> Option<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            match line.trim_end() {
                END => return Some(lines),
                line if GONE.iter().any(|gone| line.starts_with(gone)) => return None,
                line => lines.push(line.to_owned()),
            }
        }
    }

    pub(super) fn reply(&mut self) -> Vec<String> {
        self.try_reply().expect("the connection lives")
    }

    pub(super) fn run(&mut self, statement: &str) -> Vec<String> {
        self.send(&[statement.to_owned()]);
        let reply = self.reply();
        assert_eq!(error(&reply), None, "{statement}");
        reply
    }

    pub(super) fn wait_until(&mut self, what: &str, mut condition: impl FnMut(&mut Self) -> bool) {
        wait_until(Duration::from_secs(20), what, || condition(self));
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.client.kill());
        drop(self.client.wait());
    }
}

/// What the server says is wrong, if anything is.
pub(super) fn error(reply: &[String]) -> Option<&str> {
    let mut errors = reply.iter().filter(|line| line.starts_with("ERROR"));
    errors.next().map(String::as_str)
}

fn find(programs: &Programs, program: &str) -> Option<PathBuf> {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let versions = versions.map(|version| version.path().join("bin"));
    let places = std::env::split_paths(&on_path).chain(programs.places.iter().map(PathBuf::from));
    places
        .chain(versions)
        .map(|place| place.join(program))
        .find(|path| path.is_file())
}

/// A command of a server, as `nobody` where the test is root.
fn command(program: &Path, arguments: Vec<String>, folder: &Path) -> Command {
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(folder.join("log"))
        .unwrap();
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null());
    command.stdout(log.try_clone().unwrap()).stderr(log);
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}
