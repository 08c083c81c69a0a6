//! A wall clock that a test can move under a running server. Its offset lies in a file in the server's folder.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::shim::{self, Shim};

static SHIM: Shim = Shim {
    name: "clock_shim",
    built: OnceLock::new(),
};

/// Where a server's offset lies.
fn file(dir: &Path) -> PathBuf {
    dir.join("clock-offset")
}

/// The server sees the true time plus this from its next reading on.
pub(super) fn set(dir: &Path, milliseconds: i64) -> io::Result<()> {
    shim::write(&file(dir), milliseconds)
}

/// The program is to see the clock of this folder.
pub(super) fn apply(command: &mut Command, dir: &Path) {
    SHIM.apply(command);
    command.env("TESTKIT_CLOCK", file(dir));
}
