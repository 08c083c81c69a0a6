//! The one way to open a file of the folder, and to list its files.
//!
//! Other users may write to a shared folder, so any kind of file may have a name of ours. A FIFO blocks until it has a
//! writer, and a file with a lease until its owner agrees. A symbolic link may lead to another machine's files. No
//! opening here blocks, follows a link or enters another mount, and only a regular file with one name is used.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Dir, FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;

use super::io_error::{FileError, system};
use crate::base::error::{ErrorKind, StoreError};

/// Why a file was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unopened {
    System(Errno),
    /// A file of another kind in place of ours.
    Strange(&'static str),
}

/// A second name, by which a write would change a file elsewhere.
pub(super) const LINKED: Unopened = Unopened::Strange("a hard link");

impl From<Errno> for Unopened {
    fn from(error: Errno) -> Self {
        Unopened::System(error)
    }
}

impl Unopened {
    pub(super) fn error(self, doing: &str, path: &Path) -> StoreError {
        match self {
            Unopened::System(error) => system(doing, path, error),
            Unopened::Strange(found) => strange(path, found, "a regular file with one name"),
        }
    }

    /// Converts this into an error, or into this reason to retry when a process keeps the file.
    pub(super) fn trouble(self, busy: FileError, doing: &str, path: &Path) -> FileError {
        // Also when a process has a lease on it (`F_SETLEASE`), which the system breaks after a while.
        match self {
            Unopened::System(Errno::WOULDBLOCK) => busy,
            other => other.error(doing, path).into(),
        }
    }
}

/// Creates the error of what is in place of a file or a folder of ours.
pub(super) fn strange(path: &Path, found: &str, ours: &str) -> StoreError {
    let path = path.display();
    let message = format!(
        "{path} is {found}, where leaselock keeps {ours}; it was not touched. Find out who put it there, and delete it"
    );
    StoreError::refused(ErrorKind::Corrupt, message)
}

/// Opens a regular file. `access` is read-only or read and write, and for a new file `CREATE | EXCL`.
pub(super) fn open(
    folder: &OwnedFd,
    name: &str,
    access: OFlags,
    mode: Mode,
) -> Result<(OwnedFd, Stat), Unopened> {
    let flags = access | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = within(folder, name, flags, mode).map_err(|error| match error {
        Errno::LOOP => Unopened::Strange("a symbolic link"),
        Errno::ISDIR => Unopened::Strange("a folder"),
        Errno::NXIO | Errno::NODEV | Errno::OPNOTSUPP => Unopened::Strange("a socket or a device"),
        Errno::XDEV => Unopened::Strange("a mount of another file system"),
        other => Unopened::System(other),
    })?;
    let stat = fstat(&file)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stat.st_nlink > 1 => Err(LINKED),
        FileType::RegularFile => Ok((file, stat)),
        FileType::Fifo => Err(Unopened::Strange("a FIFO")),
        FileType::Directory => Err(Unopened::Strange("a folder")),
        _ => Err(Unopened::Strange("a device")),
    }
}

/// Opens the entry to read its attributes, not its content.
#[cfg(target_os = "linux")]
pub(super) fn place(folder: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    within(folder, name, flags, Mode::empty())
}

pub(super) fn folder(root: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    within(root, name, flags | OFlags::NONBLOCK, Mode::empty())
}

/// Opens without entering another mount, by which a user could replace a folder, and which may hang.
#[cfg(target_os = "linux")]
fn within(folder: &OwnedFd, name: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    use rustix::fs::{ResolveFlags, openat2};
    /// True on kernels before 5.6, and in sandboxes that do not know the call.
    static UNKNOWN: AtomicBool = AtomicBool::new(false);
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    if !UNKNOWN.load(Ordering::Relaxed) {
        match openat2(folder.as_fd(), name, flags, mode, resolve) {
            Err(Errno::NOSYS | Errno::PERM) => {}
            other => return other,
        }
        // A sandbox may return `EPERM` for a call that it does not know, and so may a file that cannot be changed.
        let plain = openat(folder, name, flags, mode);
        if plain.is_ok() {
            UNKNOWN.store(true, Ordering::Relaxed);
        }
        return plain;
    }
    openat(folder, name, flags, mode)
}

#[cfg(not(target_os = "linux"))]
fn within(folder: &OwnedFd, name: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    openat(folder.as_fd(), name, flags, mode)
}

/// The names in a sub-folder, a few at a time: there may be millions.
///
/// Read through the open descriptor, because the path may lead elsewhere by now. It continues after the last call. Files created or removed meanwhile may be included or not.
#[derive(Debug)]
pub(super) struct Names(Dir);

impl Names {
    pub(super) fn of(folder: &OwnedFd) -> Result<Self, Errno> {
        Dir::read_from(folder).map(Names)
    }
}

impl Iterator for Names {
    type Item = String;

    /// Returns the next name that a file of ours may have.
    fn next(&mut self) -> Option<String> {
        loop {
            let entry = self.0.read()?.ok()?;
            match entry.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => return Some(name.to_owned()),
            }
        }
    }
}
