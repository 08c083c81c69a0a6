//! A disk that takes as long for each flush as a test says, under a running server.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use super::shim::{self, Shim};

static SHIM: Shim = Shim {
    name: "slow_disk_shim",
    built: OnceLock::new(),
};

fn file(dir: &Path) -> PathBuf {
    dir.join("disk-delay")
}

/// Each flush takes at least so long from the next one on.
pub(super) fn set(dir: &Path, delay: Duration) -> io::Result<()> {
    let milliseconds = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
    shim::write(&file(dir), milliseconds)
}

/// The program is to have the disk of this folder.
pub(super) fn apply(command: &mut Command, dir: &Path) {
    SHIM.apply(command);
    command.env("TESTKIT_DISK", file(dir));
}
