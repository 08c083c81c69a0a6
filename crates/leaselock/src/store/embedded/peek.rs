//! Reading a lock file without its lock.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::file_format;
use super::file_format::Found;
use super::opening;
use super::opening::Unopened;

/// Reads a file without its lock; `None` when it does not exist.
///
/// A writer may be writing the older copy meanwhile, which does not matter.
pub(super) fn peek(locks: &OwnedFd, name: &str) -> Result<Option<Found>, Unopened> {
    let (file, stat) = match opening::open(locks, name, OFlags::RDONLY, Mode::empty()) {
        Err(Unopened::System(Errno::NOENT)) => return Ok(None),
        other => other?,
    };
    let length = u64::try_from(stat.st_size).unwrap_or(0);
    Ok(file_format::read(file.as_fd(), length).map(Some)?)
}
