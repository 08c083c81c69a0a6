//! Garbage collection: lock files without anything alive, and files of dead processes.
//!
//! Calls examine a few lock files at a time, so that no call has the cost of all of them. The client's own thread
//! examines all files of processes, so that no call has any of that cost.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::folder::Folder;
use super::lockfile;
use super::opening::Names;
use super::session::{self, SessionRemains};

/// How many calls there are to one sweep.
const EVERY: u32 = 256;
/// One in how many processes sweeps at its first call.
///
/// Processes that make only a call or two have to sweep too, but not each of them.
const STARTS: u8 = 8;
/// How many files one step examines.
const AT_ONCE: usize = 16;

/// The progress of the sweep of the lock files.
#[derive(Debug)]
pub(super) struct Gc {
    calls: AtomicU32,
    place: Mutex<Option<Names>>,
}

impl Gc {
    /// Creates the state; the client's random id decides whether its first call sweeps.
    pub(super) fn new(client: &str) -> Self {
        let dice = client.bytes().last().unwrap_or(0);
        Gc {
            calls: AtomicU32::new(u32::from(!dice.is_multiple_of(STARTS))),
            place: Mutex::default(),
        }
    }

    pub(super) fn is_due(&self) -> bool {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        calls.is_multiple_of(EVERY)
    }

    pub(super) fn step(&self, folder: &Folder) {
        let Ok(mut place) = self.place.try_lock() else {
            return;
        };
        let mut names = place.take().or_else(|| Names::of(&folder.locks).ok());
        let few: Vec<String> = names.iter_mut().flatten().take(AT_ONCE).collect();
        // After the last one the next step reads the folder anew.
        *place = names.filter(|_| few.len() == AT_ONCE);
        few.iter().for_each(|file| lock_file(folder, file));
        folder.kept.close_all(); // some of them are being removed
    }
}

/// Removes the session files and sockets of all dead processes, a few at a time, so that the thread has time for others.
pub(super) async fn dead_processes(folder: &Folder) {
    const FEW: usize = 8;
    /// Between two groups of files of dead processes that are removed.
    const PAUSE: Duration = Duration::from_millis(5);
    let mut sessions = Names::of(&folder.sessions).ok();
    let mut wakes = Names::of(&folder.wakes).ok();
    loop {
        tokio::task::yield_now().await; // what a call waits for comes first
        let few = |names: &mut Option<Names>| {
            let names = names.iter_mut().flatten();
            names.take(FEW).collect::<Vec<String>>()
        };
        let (clients, sockets) = (few(&mut sessions), few(&mut wakes));
        clients.iter().for_each(|file| session_file(folder, file));
        sockets.iter().for_each(|file| folder.wake.sweep(file));
        if clients.len().max(sockets.len()) < FEW {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Examines a lock file, except a busy or damaged one.
fn lock_file(folder: &Folder, name: &str) {
    let Ok(now_us) = folder.time_us() else {
        return;
    };
    let Ok(Some(held)) = lockfile::lock(folder, name, false) else {
        return;
    };
    let is_empty = || {
        held.load(now_us)
            .is_ok_and(|(image, _)| image.entries.is_empty())
    };
    // Its creator holds its lock until it has its own name, and creates another when this one is removed before.
    if lockfile::is_unnamed(name) || is_empty() {
        held.remove();
    }
}

fn session_file(folder: &Folder, name: &str) {
    let client = name.strip_suffix(".main").unwrap_or(name);
    if client != folder.settings.client
        && session::look(&folder.sessions, client) == Ok(SessionRemains::Nobody)
    {
        session::remove(&folder.sessions, client);
    }
}
