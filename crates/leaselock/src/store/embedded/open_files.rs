//! Files that stay open from one call to the next, because finding one costs more than locking it.
//!
//! A lock belongs to an open file and not to a thread. So a call takes the file out while it uses it: two threads never
//! lock through the same one. After every lock of a lock file the call checks that other processes still find it, as if it
//! had just been opened; a session's file proves only that its process lives.

use std::os::fd::OwnedFd;
use std::sync::Mutex;

use crate::base::shorthand::hold;

/// The most open files: more names in use at once are rare, and a process may have only a thousand descriptors.
pub(super) const MOST: usize = 64;

/// An open lock file, and its identity in the system.
#[derive(Debug)]
pub(super) struct LockFile {
    pub(super) descriptor: OwnedFd,
    pub(super) identity: (u64, u64),
}

/// The files that no call uses at the moment, by name. Of too many the first, which is idle for longest, is closed.
#[derive(Debug)]
pub(super) struct OpenFiles<F> {
    idle: Mutex<Vec<(String, F)>>,
    /// The process that opened them: a forked process shares its parent's open files, and with them its locks.
    process: u32,
}

impl<F> Default for OpenFiles<F> {
    fn default() -> Self {
        OpenFiles {
            idle: Mutex::default(),
            process: std::process::id(),
        }
    }
}

impl<F> OpenFiles<F> {
    /// Takes a file out, so that no other call has it until it is put back.
    pub(super) fn take(&self, name: &str) -> Option<F> {
        let mut idle = hold(&self.idle);
        let at = idle.iter().position(|(its, _)| its == name)?;
        let (_, file) = idle.remove(at);
        (self.process == std::process::id()).then_some(file)
    }

    pub(super) fn put_back(&self, name: &str, file: F) {
        let mut idle = hold(&self.idle);
        idle.retain(|(its, _)| its != name);
        let beyond = (idle.len() + 1).saturating_sub(MOST);
        idle.drain(..beyond);
        idle.push((name.to_owned(), file));
    }

    /// Closes all files: each takes a descriptor, and a removed one takes up space. True if there was one.
    pub(super) fn close_all(&self) -> bool {
        let idle = std::mem::take(&mut *hold(&self.idle));
        !idle.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_file() -> LockFile {
        LockFile {
            descriptor: std::fs::File::open("/dev/null").unwrap().into(),
            identity: (0, 0),
        }
    }

    #[test]
    fn a_file_is_with_one_call_at_a_time() {
        let kept = OpenFiles::default();
        kept.put_back("job", some_file());
        assert!(kept.take("job").is_some() && kept.take("job").is_none());
    }

    #[test]
    fn a_forked_process_uses_no_file_of_its_parent() {
        let kept = OpenFiles {
            idle: Mutex::default(),
            process: 0,
        };
        kept.put_back("job", some_file());
        assert!(kept.take("job").is_none());
    }

    #[test]
    fn of_too_many_files_the_one_that_was_idle_for_the_longest_is_closed() {
        let kept = OpenFiles::default();
        for number in 0..=MOST {
            kept.put_back(&number.to_string(), some_file());
        }
        assert!(kept.take("0").is_none());
        let first = kept.take("1").unwrap();
        kept.put_back("1", first);
        kept.put_back("more", some_file());
        kept.put_back("too", some_file());
        assert!(kept.take("2").is_none() && kept.take("1").is_some());
        assert!(kept.close_all());
        assert!(!kept.close_all());
    }
}
