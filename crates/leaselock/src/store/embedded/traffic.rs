//! How often a lock file was written, without its lock and without reading it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, fstat, openat};

use super::file_format;
use super::lockfile;
use super::on_disk::FolderStore;
use crate::base::slots;
use crate::store::Traffic;

impl FolderStore {
    pub(super) fn traffic(&self, key: &str) -> Option<Traffic> {
        let folder = self.folder().ok()?;
        of_file(&folder.locks, &lockfile::file_name(slots::tag(key)))
    }
}

fn of_file(locks: &OwnedFd, name: &str) -> Option<Traffic> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = openat(locks, name, flags, Mode::empty()).ok()?;
    let stat = fstat(&file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let length = u64::try_from(stat.st_size).ok()?;
    let (commits, bytes) = file_format::newest(file.as_fd(), length).ok()??;
    Some(Traffic { commits, bytes })
}
