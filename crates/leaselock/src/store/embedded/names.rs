//! The names in a sub-folder, a few at a time: there may be millions.
//!
//! Read through the open descriptor, because the path may lead elsewhere by now.

use std::os::fd::OwnedFd;

use rustix::fs::Dir;
use rustix::io::Errno;

/// An iteration that continues after the last call. Files created or removed meanwhile may be included or not.
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
