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
