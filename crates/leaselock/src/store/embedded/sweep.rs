//! Tidying up: lock files with nothing alive in them, and what dead processes left. A few files at a time, so that no
//! call pays for all of history.

use std::fs::ReadDir;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use super::folder::Folder;
use super::lockfile;
use super::session::{self, Left};

/// One call in so many sweeps.
const EVERY: u32 = 256;
/// Processes that make a call or two only have to sweep as well, but not each of them: one in so many does at its
/// first call.
const STARTS: u8 = 8;
/// How many files of each kind one step looks at.
const AT_ONCE: usize = 16;

/// How far the sweep is in each folder.
#[derive(Debug)]
pub(super) struct Sweep {
    calls: AtomicU32,
    places: Mutex<[Option<ReadDir>; 3]>,
}

impl Sweep {
    /// The client's id, which is random, decides whether its first call sweeps.
    pub(super) fn new(client: &str) -> Self {
        let dice = client.bytes().last().unwrap_or(0);
        Sweep {
            calls: AtomicU32::new(u32::from(!dice.is_multiple_of(STARTS))),
            places: Mutex::default(),
        }
    }

    pub(super) fn is_due(&self) -> bool {
        self.calls
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(EVERY)
    }

    pub(super) fn step(&self, folder: &Folder) {
        let Ok(mut places) = self.places.try_lock() else {
            return;
        };
        for (place, name) in places.iter_mut().zip(["locks", "sessions", "wake"]) {
            for file in next(place, folder, name) {
                match name {
                    "locks" => lock_file(folder, &file),
                    "sessions" => session_file(folder, &file),
                    _ => folder.wake.sweep(&file),
                }
            }
        }
        folder.kept.close_all(); // some of them are removed now
    }
}

/// The next few names. After the last one the folder is read anew, at the next step.
fn next(place: &mut Option<ReadDir>, folder: &Folder, name: &str) -> Vec<String> {
    if place.is_none() {
        *place = std::fs::read_dir(folder.settings.path.join(name)).ok();
    }
    let entries = place.iter_mut().flatten().take(AT_ONCE).flatten();
    let names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    if names.len() < AT_ONCE {
        *place = None;
    }
    names
}

/// A busy or damaged file is left alone.
fn lock_file(folder: &Folder, name: &str) {
    let Ok(anchor_us) = folder.anchor_us() else {
        return;
    };
    let now_us = folder.boot_us().saturating_add(anchor_us);
    if let Ok(Some(held)) = lockfile::lock(folder, name, false)
        && let Ok((image, _)) = held.load(anchor_us, now_us)
        && image.entries.is_empty()
    {
        held.remove();
    }
}

fn session_file(folder: &Folder, name: &str) {
    let client = name.strip_suffix(".main").unwrap_or(name);
    if client != folder.settings.client && session::look(&folder.sessions, client) == Left::Nobody {
        session::remove(&folder.sessions, client);
    }
}
