//! Lock libraries of other languages, which the tests share locks with: installed below the target folder, in the
//! versions that the lock files in peers/ pin.
//!
//! What is there already for the same lock file is left as it is, so that later runs need no network.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cargo::{Cargo, run};
use crate::files;
use crate::files::target;

/// A file in a registry's folder, written when everything else is there; it holds the lock file's text.
const READY: &str = "ready";

/// Where libraries come from.
struct Registry {
    /// The folder that names them.
    sources: &'static str,
    /// The folder below that of all libraries.
    folder: &'static str,
    lock: &'static str,
    /// What succeeds where it can be installed and run.
    asks: &'static [&'static [&'static str]],
    needs: &'static str,
    install: fn(&Path, &Path) -> Result<(), String>,
}

const REGISTRIES: [Registry; 2] = [
    Registry {
        sources: "peers/node",
        folder: "node",
        lock: "package-lock.json",
        asks: &[&["node", "-e", NODE_IS_NEW_ENOUGH], &["npm", "--version"]],
        needs: "node 18 or later, and npm (Debian: `apt-get install nodejs npm`)",
        install: from_npm,
    },
    Registry {
        sources: "peers/python",
        folder: "python",
        lock: "requirements.txt",
        asks: &[&["python3", "-c", PYTHON_IS_NEW_ENOUGH]],
        needs: "python 3.10 or later with venv (Debian: `apt-get install python3-venv`)",
        install: from_pypi,
    },
];
/// Those that the benchmark measures beside leaselock.
const MEASURED: [Registry; 2] = [
    Registry {
        sources: "bench/peers/node",
        folder: "measured",
        ..REGISTRIES[0]
    },
    Registry {
        sources: "bench/peers/python",
        folder: "measured-python",
        ..REGISTRIES[1]
    },
];
const NODE_IS_NEW_ENOUGH: &str = "process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)";
const PYTHON_IS_NEW_ENOUGH: &str =
    "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))";

/// Installs what can be, and returns the folder for `LEASELOCK_TEST_PEERS`. What cannot is named, and an error where
/// `CI` says that nothing may be left out.
pub(crate) fn install(cargo: &Cargo) -> Result<PathBuf, String> {
    let all = target().join("peers");
    let mut missing = Vec::new();
    for registry in &REGISTRIES {
        if registry.is_possible() {
            registry.install_once(&all)?;
        } else {
            // Else tests would believe that what was once installed can still be run.
            drop(fs::remove_file(all.join(registry.folder).join(READY)));
            missing.push(registry);
        }
    }
    from_crates_io(cargo, &all.join("rust"))?;
    for registry in &missing {
        let Registry { sources, needs, .. } = registry;
        println!("SKIPPED: the libraries in {sources}; they need {needs}");
    }
    let must = env::var("CI").is_ok_and(|ci| ci == "true");
    if must && !missing.is_empty() {
        return Err("nothing may be skipped where CI=true".to_owned());
    }
    Ok(all)
}

/// Installs the libraries from npm and PyPI that the benchmark measures, and returns the folder of both. Without them it
/// measures the others.
pub(crate) fn install_measured() -> PathBuf {
    let all = target().join("peers");
    for registry in &MEASURED {
        let installed = if registry.is_possible() {
            registry.install_once(&all)
        } else {
            Err(format!("they need {}", registry.needs))
        };
        if let Err(why) = installed {
            println!("SKIPPED: the libraries in {}: {why}", registry.sources);
        }
    }
    all
}

impl Registry {
    fn is_possible(&self) -> bool {
        self.asks.iter().all(|words| succeeds(words))
    }

    fn install_once(&self, all: &Path) -> Result<(), String> {
        let sources = files::root().join(self.sources);
        let lock = read(&sources.join(self.lock))?;
        let folder = all.join(self.folder);
        let ready = folder.join(READY);
        if fs::read_to_string(&ready).is_ok_and(|stamp| stamp == lock) {
            println!("{}: there already", folder.display());
            return Ok(());
        }
        drop(fs::remove_dir_all(&folder)); // there may be none
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        (self.install)(&sources, &folder)?;
        write(&ready, &lock)
    }
}

/// No package's own installation script runs, and no client library is fetched that only might be used.
fn from_npm(sources: &Path, folder: &Path) -> Result<(), String> {
    for file in ["package.json", "package-lock.json"] {
        write(&folder.join(file), &read(&sources.join(file))?)?;
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--legacy-peer-deps", "--ignore-scripts"])
        .args(["--no-audit", "--no-fund"])
        .args(["--loglevel", "error", "--cache"])
        .arg(folder.with_file_name("npm-cache"))
        .current_dir(folder);
    run(npm)
}

fn from_pypi(sources: &Path, folder: &Path) -> Result<(), String> {
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv"]).arg(folder);
    run(venv)?;
    let mut pip = Command::new(folder.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet"])
        .args(["--disable-pip-version-check", "--only-binary=:all:"])
        .args(["--require-hashes", "--requirement"])
        .arg(sources.join("requirements.txt"));
    run(pip)
}

/// Cargo knows by itself what is there already.
fn from_crates_io(cargo: &Cargo, folder: &Path) -> Result<(), String> {
    let build = "build --quiet --locked --manifest-path peers/rust/Cargo.toml --target-dir";
    cargo.run_with(build, folder)?;
    write(&folder.join(READY), "")
}

fn succeeds(words: &[&str]) -> bool {
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_program_that_is_there_and_content_succeeds() {
        assert!(succeeds(&["true"]));
        assert!(!succeeds(&["false"]));
        assert!(!succeeds(&["/does/not/exist"]));
    }
}
