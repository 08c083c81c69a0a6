//! Sessions bind leases to processes.
//!
//! A process holds two locked files as long as it lives. A job may inherit the descriptor of `sessions/<client>`; no
//! process inherits that of `sessions/<client>.main`. The system drops the locks when the last descriptor is closed. So
//! any client can tell whether the process is alive, dead with its job running, or both have ended.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, statat, unlinkat};
use rustix::io::{Errno, pread, pwrite};

use super::open_files::{MOST, OpenFiles};
use super::opening::{self, Unopened};
use crate::base::{Moment, hold};

/// What remains of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionRemains {
    Process,
    /// The process is dead, but its job still has the descriptor. The moment is the longest hold.
    Job(Option<Moment>),
    Nobody,
}

/// This process's own session. It ends when dropped, unless a job continues.
#[derive(Debug)]
pub(super) struct Session {
    folder: OwnedFd,
    client: String,
    /// Both are there until it is dropped.
    shared: Option<OwnedFd>,
    main: Option<OwnedFd>,
    process: u32, // which began it: a forked one has copies of the descriptors
}

fn main_name(client: &str) -> String {
    format!("{client}.main")
}

impl Session {
    /// Creates and locks both files. The client's id must not have been written anywhere before.
    pub(super) fn begin(folder: &OwnedFd, client: &str, mode: Mode) -> Result<Self, Unopened> {
        Ok(Session {
            folder: rustix::io::fcntl_dupfd_cloexec(folder, 0)?,
            client: client.to_owned(),
            shared: Some(locked(folder, client, mode)?),
            main: Some(locked(folder, &main_name(client), mode)?),
            process: std::process::id(),
        })
    }

    /// True if other processes find these files in this folder, and false after it was emptied or replaced.
    pub(super) fn is_linked(&self, folder: &OwnedFd) -> bool {
        let linked = |file: &OwnedFd| rustix::fs::fstat(file).is_ok_and(|stat| stat.st_nlink > 0);
        let place = |folder| rustix::fs::fstat(folder).map(|stat| (stat.st_dev, stat.st_ino));
        let is_here = place(&self.folder) == place(folder);
        is_here && [&self.shared, &self.main].into_iter().flatten().all(linked)
    }

    /// Returns a descriptor for a job to inherit: as long as it is open, this client's leases stay held.
    pub(super) fn descriptor(&self) -> Option<OwnedFd> {
        rustix::io::dup(self.shared.as_ref()?).ok() // without close-on-exec, on purpose
    }

    /// Limits how long a job can hold after its process.
    pub(super) fn limit(&self, until: Moment) -> Result<(), Errno> {
        let text = format!("{:020}\n", until.as_nanos());
        let write = |file| pwrite(file, text.as_bytes(), 0).map(drop);
        self.shared.as_ref().map_or(Ok(()), write)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.shared.take());
        // Unlocked explicitly: another thread may be starting a process, which has a copy until it runs its program.
        let own = (self.main.take()).filter(|_| self.process == std::process::id()); // no copy of a parent's
        own.map(|main| flock(main, FlockOperation::Unlock).ok());
        // Only when no job has the descriptor; otherwise the sweep removes the files later.
        remove(&self.folder, &self.client);
    }
}

/// Creates and locks a file that a sweep may be removing at this very moment.
fn locked(folder: &OwnedFd, name: &str, mode: Mode) -> Result<OwnedFd, Unopened> {
    /// A process that keeps the lock costs the caller's thread 10 ms; then the caller waits with timers.
    const TRIES: u32 = 20;
    for _ in 0..TRIES {
        let (file, _) = opening::open(folder, name, OFlags::RDWR | OFlags::CREATE, mode)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if rustix::fs::fstat(&file)?.st_nlink > 0 => {
                // The mask of the process must not hide it from other users of the folder.
                rustix::fs::fchmod(&file, mode)?;
                return Ok(file);
            }
            Ok(()) => {}
            // A process is checking it, which takes microseconds.
            Err(Errno::WOULDBLOCK) => std::thread::sleep(std::time::Duration::from_micros(500)),
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::WOULDBLOCK.into())
}

/// True if this client has, or just had, a session.
pub(super) fn exists(folder: &OwnedFd, client: &str) -> bool {
    statat(folder, main_name(client), AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// The state of one of the two files.
enum SessionState {
    /// There is none, or no process holds it.
    Free,
    /// Locked, or not readable for us.
    Held(Option<OwnedFd>),
    /// The file is not a session, so nothing is known.
    Strange,
}

/// Fails when this process lacks what opening takes: that says nothing about the client.
fn see(folder: &OwnedFd, name: &str) -> Result<SessionState, Errno> {
    Ok(
        match opening::open(folder, name, OFlags::RDONLY, Mode::empty()) {
            Ok((file, _)) => match flock(&file, FlockOperation::NonBlockingLockShared) {
                Ok(()) => {
                    // Closing is enough, unless another thread is just starting a process.
                    flock(&file, FlockOperation::Unlock).ok();
                    SessionState::Free
                }
                Err(_) => SessionState::Held(Some(file)),
            },
            Err(Unopened::System(Errno::NOENT)) => SessionState::Free,
            Err(Unopened::Strange(_)) => SessionState::Strange,
            Err(Unopened::System(lack @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM))) => {
                return Err(lack);
            }
            Err(Unopened::System(_)) => SessionState::Held(None),
        },
    )
}

/// True if a process or a job holds this file of a session.
pub(super) fn is_held(folder: &OwnedFd, name: &str) -> bool {
    matches!(see(folder, name), Ok(SessionState::Held(Some(_))))
}

/// Returns what remains of a client that had a session.
pub(super) fn look(folder: &OwnedFd, client: &str) -> Result<SessionRemains, Errno> {
    Ok(search(folder, client)?.0)
}

/// Returns the state, with the file that a living process holds.
///
/// Where another kind of file is in place of a session, the ttl decides, as for a living process.
fn search(folder: &OwnedFd, client: &str) -> Result<(SessionRemains, Option<OwnedFd>), Errno> {
    match see(folder, &main_name(client))? {
        SessionState::Held(main) => return Ok((SessionRemains::Process, main)),
        SessionState::Strange => return Ok((SessionRemains::Process, None)),
        SessionState::Free => {}
    }
    let left = match see(folder, client)? {
        SessionState::Held(file) => SessionRemains::Job(file.and_then(|file| limit_in(&file))),
        SessionState::Strange => SessionRemains::Process,
        SessionState::Free => SessionRemains::Nobody,
    };
    Ok((left, None))
}

/// Files of clients that were alive, kept open because each call checks its holder.
///
/// Only the process itself locks its file, so one that is still locked is alive; any other case is searched anew.
#[derive(Debug, Default)]
pub(super) struct Living {
    pub(super) files: OpenFiles<OwnedFd>,
    /// Clients that have, or had, a session, which stays true: it begins before their id is written anywhere.
    known: Mutex<HashSet<String>>,
}

impl Living {
    pub(super) fn look(&self, folder: &OwnedFd, client: &str) -> Result<SessionRemains, Errno> {
        if let Some(file) = self.files.take(client) {
            match flock(&file, FlockOperation::NonBlockingLockShared) {
                Err(Errno::WOULDBLOCK) => {
                    self.files.put_back(client, file);
                    return Ok(SessionRemains::Process);
                }
                _ => drop(flock(&file, FlockOperation::Unlock)),
            }
        }
        let (left, file) = search(folder, client)?;
        file.into_iter()
            .for_each(|file| self.files.put_back(client, file));
        Ok(left)
    }

    /// Returns what `exists` does, with one check only for a client that has a session.
    pub(super) fn had_session(&self, folder: &OwnedFd, client: &str) -> bool {
        let mut known = hold(&self.known);
        if known.contains(client) {
            return true;
        }
        let exists = exists(folder, client);
        if exists {
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(client.to_owned());
        }
        exists
    }
}

fn limit_in(file: &OwnedFd) -> Option<Moment> {
    let mut text = [0; 20];
    let length = pread(file, &mut text, 0).ok()?;
    let text = std::str::from_utf8(text.get(..length)?).ok()?;
    Some(Moment::from_nanos(text.parse().ok()?))
}

/// Removes the files of a client whose process and job have ended.
pub(super) fn remove(folder: &OwnedFd, client: &str) {
    let free = |name: &str| {
        let (file, _) = opening::open(folder, name, OFlags::RDWR, Mode::empty())?;
        flock(file.as_fd(), FlockOperation::NonBlockingLockShared)?; // a process that checks it is not kept out
        Ok(file)
    };
    // Both are locked before either is removed, so that a session that is just beginning is left alone.
    let (main, shared) = (free(&main_name(client)), free(client));
    let gone = |file: &Result<OwnedFd, Unopened>| {
        matches!(file, Ok(_) | Err(Unopened::System(Errno::NOENT)))
    };
    if gone(&main) && gone(&shared) {
        for (name, file) in [(main_name(client), main), (client.to_owned(), shared)] {
            if file.is_ok() {
                unlinkat(folder, name, AtFlags::empty()).ok();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::embedded::testing::{Job, Scratch};

    const PRIVATE: Mode = Mode::from_raw_mode(0o600);

    #[test]
    fn a_session_tells_process_job_and_nobody_apart() {
        let scratch = Scratch::new();
        let folder = scratch.descriptor();
        let session = Session::begin(&folder, "client01", PRIVATE).unwrap();
        assert!(exists(&folder, "client01") && session.is_linked(&folder));
        assert_eq!(look(&folder, "client01"), Ok(SessionRemains::Process));
        session.limit(Moment::from_nanos(77)).unwrap();
        let job = Job::inheriting(|| session.descriptor());
        drop(session);
        assert_eq!(
            look(&folder, "client01"),
            Ok(SessionRemains::Job(Some(Moment::from_nanos(77))))
        );
        drop(job);
        // Other tests start processes, which have a copy of every descriptor for a moment.
        while look(&folder, "client01") != Ok(SessionRemains::Nobody) {
            std::thread::yield_now();
        }
        while exists(&folder, "client01") {
            remove(&folder, "client01");
        }
        assert_eq!(look(&folder, "client01"), Ok(SessionRemains::Nobody));
    }

    #[test]
    fn a_client_whose_file_is_kept_open_is_not_alive_for_ever() {
        let scratch = Scratch::new();
        let folder = scratch.descriptor();
        let living = Living::default();
        let session = Session::begin(&folder, "client01", PRIVATE).unwrap();
        for _ in 0..2 {
            assert_eq!(
                living.look(&folder, "client01"),
                Ok(SessionRemains::Process)
            );
        }
        let job = Job::inheriting(|| session.descriptor());
        drop(session);
        // Other tests start processes, which have a copy of every descriptor for a moment.
        while living.look(&folder, "client01") != Ok(SessionRemains::Job(None)) {
            std::thread::yield_now();
        }
        drop(job);
        while living.look(&folder, "client01") != Ok(SessionRemains::Nobody) {
            std::thread::yield_now();
        }
    }

    /// The folder was emptied and the client began anew under its old id.
    #[test]
    fn a_kept_file_that_nobody_locks_any_more_is_no_proof_that_its_client_is_gone() {
        let scratch = Scratch::new();
        let folder = scratch.descriptor();
        let living = Living::default();
        let first = Session::begin(&folder, "client01", PRIVATE).unwrap();
        assert_eq!(
            living.look(&folder, "client01"),
            Ok(SessionRemains::Process)
        );
        for file in std::fs::read_dir(scratch.path()).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
        let second = Session::begin(&folder, "client01", PRIVATE).unwrap();
        drop(first);
        for _ in 0..2 {
            assert_eq!(
                living.look(&folder, "client01"),
                Ok(SessionRemains::Process)
            );
        }
        drop(second);
        while living.look(&folder, "client01") != Ok(SessionRemains::Nobody) {
            std::thread::yield_now(); // other tests start processes, which have a copy of every descriptor for a moment
        }
    }

    #[test]
    fn a_session_that_another_thread_removes_is_nobodys_all_the_time() {
        let scratch = Scratch::new();
        let folder = &scratch.descriptor();
        for round in 0..2_000 {
            let client = &format!("client{round:04}");
            for name in [client, &main_name(client)] {
                // Not locked before: a process that another test starts would have the lock for a moment.
                let new = OFlags::RDWR | OFlags::CREATE;
                drop(opening::open(folder, name, new, PRIVATE).unwrap());
            }
            std::thread::scope(|threads| {
                threads.spawn(|| remove(folder, client));
                assert_eq!(look(folder, client), Ok(SessionRemains::Nobody));
            });
        }
    }

    #[test]
    fn a_session_goes_on_when_a_forked_process_drops_its_copy() {
        let scratch = Scratch::new();
        let folder = scratch.descriptor();
        let mut copy = Session::begin(&folder, "client01", PRIVATE).unwrap();
        let parent = [&copy.shared, &copy.main].map(|file| file.as_ref().unwrap().try_clone());
        copy.process = 0;
        drop(copy);
        assert_eq!(look(&folder, "client01"), Ok(SessionRemains::Process));
        drop(parent);
    }

    #[test]
    fn a_session_without_a_job_leaves_no_file_behind() {
        let scratch = Scratch::new();
        let folder = scratch.descriptor();
        drop(Session::begin(&folder, "client01", PRIVATE).unwrap());
        while std::fs::read_dir(scratch.path()).unwrap().count() > 0 {
            remove(&folder, "client01");
        }
    }

    #[test]
    fn a_living_session_is_never_removed() {
        let scratch = Scratch::new();
        let folder = scratch.descriptor();
        let session = Session::begin(&folder, "client01", PRIVATE).unwrap();
        remove(&folder, "client01");
        assert!(session.is_linked(&folder));
        assert_eq!(look(&folder, "client01"), Ok(SessionRemains::Process));
    }
}
