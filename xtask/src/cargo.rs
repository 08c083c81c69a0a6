//! Running other programs, cargo above all.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::files;

/// The cargo that runs us, told which server the tests use.
#[derive(Debug)]
pub(crate) struct Cargo {
    program: OsString,
    server: PathBuf,
    peers: Option<PathBuf>,
    rounds: Option<&'static str>,
    /// Another tree than the repository; what is built goes to the same target folder.
    tree: Option<PathBuf>,
}

impl Cargo {
    pub(crate) fn new(server: &Path) -> Cargo {
        let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        Cargo {
            program,
            server: server.to_owned(),
            peers: None,
            rounds: None,
            tree: None,
        }
    }

    /// Tells the tests where libraries of others are.
    pub(crate) fn with_peers(mut self, folder: PathBuf) -> Cargo {
        self.peers = Some(folder);
        self
    }

    /// Builds a copy of the repository.
    pub(crate) fn at(mut self, tree: &Path) -> Cargo {
        self.tree = Some(tree.to_owned());
        self
    }

    /// Says how many rounds of each scenario are run.
    pub(crate) fn with_rounds(mut self, rounds: &'static str) -> Cargo {
        self.rounds = Some(rounds);
        self
    }

    /// Runs one subcommand in the repository; the arguments hold no spaces.
    pub(crate) fn run(&self, arguments: &str) -> Result<(), String> {
        run(self.command(arguments))
    }

    /// The same, with a last argument that may hold spaces.
    pub(crate) fn run_with(&self, arguments: &str, last: &Path) -> Result<(), String> {
        let mut command = self.command(arguments);
        command.arg(last);
        run(command)
    }

    /// Documents everything, private items too: their links are for the people who work here.
    /// The command goes first and alone: it shares its name, and so its page, with the library.
    pub(crate) fn documents(&self) -> Result<(), String> {
        for packages in ["-p leaselock-cli", "--workspace --exclude leaselock-cli"] {
            let build = format!("doc {packages} --no-deps --document-private-items --all-features");
            let mut command = self.command(&build);
            command.env("RUSTDOCFLAGS", "-D warnings");
            run(command)?;
        }
        Ok(())
    }

    /// What a subcommand answers on standard output.
    pub(crate) fn answered(&self, arguments: &str) -> Result<String, String> {
        let mut command = self.command(arguments);
        command.stderr(Stdio::inherit());
        let output = command
            .output()
            .map_err(|error| format!("cargo: {error}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!("cargo ended with {}", output.status)),
        }
    }

    fn command(&self, arguments: &str) -> Command {
        println!("cargo {arguments}");
        let mut command = Command::new(&self.program);
        let root = files::root();
        command
            .args(arguments.split(' '))
            .current_dir(self.tree.as_ref().unwrap_or(&root));
        if self.tree.is_some() {
            command.env("CARGO_TARGET_DIR", files::target());
        }
        command.env("LEASELOCK_TEST_SERVER", &self.server);
        run_tests_side_by_side(&mut command);
        if let Some(peers) = &self.peers {
            command.env("LEASELOCK_TEST_PEERS", peers);
        }
        if let Some(rounds) = self.rounds {
            command.env("LEASELOCK_TEST_ROUNDS", rounds);
        }
        // What cargo told us about ourselves is not true of the packages it builds next.
        command
            .env_remove("CARGO_MANIFEST_DIR")
            .env_remove("CARGO_PKG_NAME");
        command
    }
}

/// Most tests wait for a server or a deadline, so two of them for each processor end sooner than one.
pub(crate) fn run_tests_side_by_side(command: &mut Command) {
    const THREADS: &str = "RUST_TEST_THREADS";
    if env::var_os(THREADS).is_none() {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        command.env(THREADS, (2 * processors).to_string());
    }
}

/// Runs a program to its end, its output passed on.
pub(crate) fn run(mut command: Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} ended with {status}")),
        Err(error) => Err(format!("{program} cannot be run: {error}")),
    }
}
