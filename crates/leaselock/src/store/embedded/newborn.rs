//! A new lock file: written and locked under another name, and only then given its own.
//!
//! So every file that other processes find has both copies of its state, and an empty one was emptied.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, Stat, flock, unlinkat};
use rustix::io::Errno;

use super::file_format::{self, Record};
use super::folder::Folder;
use super::io_error::{FileError, system};
use super::opening::{self, Unopened};

/// Names of lock files begin with a letter, a digit, `_` or `-`.
const UNNAMED: &str = ".new-";

/// True if a file of this name never was a lock.
pub(super) fn is_unnamed(name: &str) -> bool {
    name.starts_with(UNNAMED)
}

/// Creates the file, locked, with the content of `blank`; `Busy` when another process was first.
pub(super) fn make(
    folder: &Folder,
    name: &str,
    blank: impl FnOnce() -> Record,
) -> Result<(OwnedFd, Stat), FileError> {
    let path = || folder.lock_path(name);
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let unnamed = format!("{UNNAMED}{}-{number}", folder.settings.client);
    let access = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    let made = match opening::open(&folder.locks, &unnamed, access, folder.file_mode) {
        Err(Unopened::System(Errno::EXIST)) => return Err(FileError::Busy),
        // The folder itself does not exist any more.
        Err(Unopened::System(Errno::NOENT)) => return Err(FileError::Gone),
        other => {
            other.map_err(|error| error.trouble(FileError::Busy, "create lock file", &path()))?
        }
    };
    match name_it(folder, &made.0, &unnamed, name, blank) {
        Ok(()) => Ok(made),
        Err(error) => {
            unlinkat(&folder.locks, &unnamed, AtFlags::empty()).ok();
            Err(match error {
                // `NOENT`: a sweep removed it as the remains of a dead process.
                Errno::EXIST | Errno::NOENT | Errno::WOULDBLOCK => FileError::Busy,
                error => system("make room for lock file", &path(), error).into(),
            })
        }
    }
}

fn name_it(
    folder: &Folder,
    file: &OwnedFd,
    unnamed: &str,
    name: &str,
    blank: impl FnOnce() -> Record,
) -> Result<(), Errno> {
    if folder.file_mode != Mode::from_raw_mode(0o600) {
        // The mask of the process must not hide it from other users.
        rustix::fs::fchmod(file, folder.file_mode)?;
    }
    flock(file, FlockOperation::NonBlockingLockExclusive)?;
    file_format::prepare(file.as_fd(), 0, blank())?;
    rename(&folder.locks, unnamed, name)
}

/// Renames; `EXIST` when there is a file of that name.
fn rename(locks: &OwnedFd, from: &str, to: &str) -> Result<(), Errno> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{RenameFlags, renameat_with};
        match renameat_with(locks, from, locks, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => {}
            other => return other,
        }
    }
    // A link, where a rename would replace another file. For a moment the file has two names.
    rustix::fs::linkat(locks, from, locks, to, AtFlags::empty())?;
    unlinkat(locks, from, AtFlags::empty())
}
