//! Separate folders for tests.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::base::shorthand::hold;

/// A temporary folder, removed when dropped.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> Self {
        let name = crate::base::token::ClientId::random().unwrap();
        let path = std::env::temp_dir().join(format!("leaselock-test-{}", name.as_str()));
        std::fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn descriptor(&self) -> OwnedFd {
        descriptor(&self.0)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

pub(super) fn descriptor(path: &Path) -> OwnedFd {
    rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

/// A process that inherited a descriptor; killed when dropped.
#[derive(Debug)]
pub(super) struct Job(std::process::Child);

impl Job {
    /// A lock, so that no other job inherits the same descriptor by accident.
    pub(super) fn inheriting(descriptor: impl FnOnce() -> Option<OwnedFd>) -> Self {
        static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _one = hold(&ONE);
        let _inherited = descriptor().unwrap();
        Job(std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap())
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
