//! Which server program the tests use.

use std::env;
use std::path::{Path, PathBuf};

const NAMES: [&str; 2] = ["redis-server", "valkey-server"];

/// `LEASELOCK_TEST_SERVER`, else one on `PATH`, else the one that `cargo xtask test` fetched.
///
/// # Panics
///
/// When there is none: a test that cannot run must not seem to have passed.
pub fn find() -> PathBuf {
    if let Some(path) = env::var_os("LEASELOCK_TEST_SERVER") {
        return path.into();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&path).collect();
    folders.push(fetched());
    in_folders(&folders).unwrap_or_else(|| {
        panic!(
            "no redis-server or valkey-server on PATH: install one, run `cargo xtask test` once, \
             or name one in LEASELOCK_TEST_SERVER"
        )
    })
}

/// The program says so itself, as in `Redis server v=6.2.14 sha=…`.
pub(super) fn is_version_6(program: &Path) -> bool {
    let said = std::process::Command::new(program)
        .arg("--version")
        .output();
    said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains(" v=6."))
}

/// Some programs are built without TLS. Those that have it try to read the certificate, which is not there, and end.
///
/// # Panics
///
/// When the program cannot be started.
pub fn has_tls(program: &Path) -> bool {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let tried = std::process::Command::new(program)
        .args(["--port", "0", "--tls-port", "1"]) // it never gets as far as the port
        .args([
            "--tls-cert-file",
            "/absent.pem",
            "--tls-key-file",
            "/absent.pem",
        ])
        .current_dir(dir.path())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let said = [tried.stdout, tried.stderr].concat();
    String::from_utf8_lossy(&said).contains("Failed to configure TLS")
}

fn in_folders(folders: &[PathBuf]) -> Option<PathBuf> {
    let mut candidates = folders
        .iter()
        .flat_map(|folder| NAMES.map(|name| folder.join(name)));
    candidates.find(|path| path.is_file())
}

fn fetched() -> PathBuf {
    target().join("test-servers")
}

/// Where what is built lies.
pub(super) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
        PathBuf::from,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_folder_wins_and_folders_are_not_programs() {
        let dir = tempfile::tempdir().unwrap();
        let folders = ["a", "b", "c"].map(|name| dir.path().join(name));
        std::fs::create_dir_all(folders[0].join("redis-server")).unwrap();
        for folder in &folders[1..] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("valkey-server"), "").unwrap();
        }
        assert_eq!(in_folders(&folders), Some(folders[1].join("valkey-server")));
        assert_eq!(in_folders(&folders[..1]), None);
    }
}
