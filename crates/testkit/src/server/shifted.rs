//! A wall clock that a test can move under a running server.
//!
//! The server runs with a small library in front of the C library, built with the system's C compiler when it is needed
//! for the first time. Its offset lies in a file in the server's folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const SOURCE: &str = include_str!("clock_shim.c");

/// Where a server's offset lies.
pub(super) fn file(dir: &Path) -> PathBuf {
    dir.join("clock-offset")
}

/// Whether the program asks a C library that another can stand in front of: it names an interpreter in its head, or is a
/// script that starts one which may.
pub(super) fn can_be(program: &Path) -> bool {
    use std::io::Read as _;
    let mut head = Vec::new();
    let read = fs::File::open(program).and_then(|file| file.take(4096).read_to_end(&mut head));
    let names_one = || head.windows(4).any(|word| word == b"/ld-");
    read.is_ok() && (!head.starts_with(b"\x7fELF") || names_one())
}

/// The server sees the true time plus this from its next reading on.
pub(super) fn set(dir: &Path, milliseconds: i64) -> io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    let file = fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(file(dir))?;
    // One write in place, as the server has the file mapped.
    file.write_all_at(&milliseconds.to_ne_bytes(), 0)
}

/// The program is to see the clock of this folder.
pub(super) fn apply(command: &mut Command, dir: &Path) {
    command.env("LD_PRELOAD", library());
    command.env("TESTKIT_CLOCK", file(dir));
}

/// The built library, the same for all servers of this process.
///
/// # Panics
///
/// When there is no C compiler: a test that cannot run must not look like one that passed.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = super::binary::target();
        fs::create_dir_all(&folder).expect("the target folder can be made");
        build(&folder).unwrap_or_else(|problem| {
            panic!(
                "the clock shim cannot be built with `cc` (Debian: apt-get install gcc): {problem}"
            )
        })
    })
}

/// Under a name of its own, then renamed: other test programs may be building it too, or running with it.
fn build(folder: &Path) -> Result<PathBuf, String> {
    let built = folder.join("clock_shim.so");
    let ours = |what: &str| folder.join(format!("clock_shim.{}.{what}", std::process::id()));
    let (source, object) = (ours("c"), ours("so"));
    fs::write(&source, SOURCE).map_err(|error| error.to_string())?;
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&object, &source])
        .output()
        .map_err(|error| error.to_string())?;
    drop(fs::remove_file(&source)); // left behind it harms nobody
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    fs::rename(&object, &built).map_err(|error| error.to_string())?;
    Ok(built)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_bring_their_own_c_library_are_told_from_others() {
        let dir = tempfile::tempdir().unwrap();
        let program = |name: &str, head: &[u8]| {
            let path = dir.path().join(name);
            fs::write(&path, head).unwrap();
            can_be(&path)
        };
        assert!(program(
            "dynamic",
            b"\x7fELF\x02\x01 /lib64/ld-linux-x86-64.so.2"
        ));
        assert!(program("script", b"#!/bin/sh"));
        assert!(!program("static", b"\x7fELF\x02\x01 nothing"));
        assert!(!can_be(&dir.path().join("missing")));
        assert!(can_be(&std::env::current_exe().unwrap()));
    }
}
