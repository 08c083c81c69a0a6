//! A store of the test's own, and the program under test as a process that is watched.

mod process;
mod store;

pub(crate) use process::{Done, Running};
pub(crate) use store::{Store, on_both};

use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode};

/// Far beyond what anything here takes: reached only by a test that fails.
pub(crate) const LIMIT: Duration = Duration::from_secs(40);

/// Waits until something is the case.
#[track_caller]
pub(crate) fn until(what: &str, is_so: impl FnMut() -> bool) {
    testkit::wait_until(LIMIT, what, is_so);
}

/// The clock that the jobs read with `cat /proc/uptime`, which counts suspend as leases do.
pub(crate) fn uptime() -> f64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap();
    seconds(&text)
}

/// The first number of a line of `/proc/uptime`.
pub(crate) fn seconds(line: &str) -> f64 {
    line.split(' ').next().unwrap().parse().unwrap()
}

/// A program that opens this file then waits for a writer.
#[track_caller]
pub(crate) fn fifo_in_place_of(path: &Path) {
    std::fs::remove_file(path).ok();
    let mode = Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(CWD, path, FileType::Fifo, mode, 0).unwrap();
}

/// The one JSON object that was printed.
#[track_caller]
pub(crate) fn object(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
}
