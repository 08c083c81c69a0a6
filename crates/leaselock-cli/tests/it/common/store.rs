//! A folder or a server of the test's own.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use testkit::{Server, TempDir, tempdir};

use super::{Done, Running, object, until};

/// Where the locks of one test lie, and the folder that its processes work in.
pub(crate) struct Store {
    pub(crate) url: String,
    pub(crate) server: Option<Server>,
    folder: TempDir,
}

/// Runs a test on a folder and on a server, at the same time: tests here mostly wait.
pub(crate) fn on_both(test: impl Fn(&Store) + Sync) {
    std::thread::scope(|scope| {
        scope.spawn(|| test(&Store::file()));
        test(&Store::redis());
    });
}

impl Store {
    pub(crate) fn file() -> Store {
        let folder = tempdir().unwrap();
        let url = format!("file://{}", folder.path().join("locks").display());
        Store {
            url,
            server: None,
            folder,
        }
    }

    pub(crate) fn redis() -> Store {
        Store::on(Server::start())
    }

    pub(crate) fn on(server: Server) -> Store {
        Store {
            url: server.url(),
            server: Some(server),
            folder: tempdir().unwrap(),
        }
    }

    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    pub(crate) fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap_or_default()
    }

    pub(crate) fn lines(&self, file: &str) -> Vec<String> {
        self.read(file).lines().map(str::to_owned).collect()
    }

    /// Waits until a file has a whole line, and gives the first.
    #[track_caller]
    pub(crate) fn line_in(&self, file: &str) -> String {
        until(file, || self.read(file).contains('\n'));
        self.lines(file).remove(0)
    }

    /// The URL of the server for a user with this password, who may do everything there.
    #[track_caller]
    pub(crate) fn login(&self, password: &str) -> String {
        let secret = format!(">{password}");
        let rights = ["ACL", "SETUSER", "u", "on", &secret, "~*", "&*", "+@all"];
        assert!(!self.server().cli(&rights).is_error());
        self.url.replace("://", &format!("://u:{password}@"))
    }

    /// The program with this store, in the test's folder, and nothing of the tester's settings.
    pub(crate) fn leaselock(&self, args: &[&str]) -> Command {
        self.command(env!("CARGO_BIN_EXE_leaselock"), args)
    }

    pub(crate) fn command(&self, program: impl AsRef<OsStr>, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.folder.path());
        command.env("LEASELOCK_URL", &self.url);
        let settings = ["LEASELOCK_HANDLE", "LEASELOCK_STRICT", "LEASELOCK_PREFIX"];
        let others = ["LEASELOCK_URL_FILE", "COLUMNS", "SHELL"];
        for name in settings.iter().chain(&others) {
            command.env_remove(name);
        }
        command
    }

    /// Runs to the end with an empty standard input.
    #[track_caller]
    pub(crate) fn run(&self, args: &[&str]) -> Done {
        Running::start(self.leaselock(args)).end()
    }

    #[track_caller]
    pub(crate) fn run_with_input(&self, args: &[&str], input: &str) -> Done {
        let mut running = Running::start(self.leaselock(args));
        running.write(input);
        running.end()
    }

    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running::start(self.leaselock(args))
    }

    /// `run` with these flags and a job that holds the lock until its standard input is closed;
    /// its number is in the file `held`.
    #[track_caller]
    pub(crate) fn hold(&self, flags: &[&str]) -> Running {
        fs::remove_file(self.path("held")).ok();
        let job = ["job", "--", "sh", "-c", "echo $$ > held; exec cat"];
        let running = self.start(&[&["run"], flags, &job].concat());
        self.line_in("held");
        // A client tells who it is just after the grant.
        until("the holder's record", || {
            let seen = self.status();
            let holders = seen["holders"].as_array().cloned().unwrap_or_default();
            let known = |one: &serde_json::Value| one["process"].is_object();
            known(&seen["holder"]) || !holders.is_empty() && holders.iter().all(known)
        });
        running
    }

    /// What `status --json` says of the lock `job`.
    #[track_caller]
    pub(crate) fn status(&self) -> serde_json::Value {
        object(&self.run(&["status", "--json", "job"]).out)
    }

    /// Waits until each of several holders of `job` has told who it is, which it does just after the grant.
    #[track_caller]
    pub(crate) fn until_known(&self) {
        until("the records of the holders", || {
            let seen = self.status();
            let holders = seen["holders"].as_array().unwrap();
            holders.iter().all(|one| one["process"].is_object())
        });
    }

    /// Waits until this many waiters are in the queue of `job`.
    #[track_caller]
    pub(crate) fn until_queued(&self, count: usize) {
        let waiters = || self.status()["queue"].as_array().unwrap().len();
        until(&format!("{count} waiters"), || waiters() == count);
    }
}
