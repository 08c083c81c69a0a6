//! One lock file: found or created, locked, read, written, removed.
//!
//! A new one is written and locked under another name, and only then given its own. So every file that other processes
//! find has both copies of its state, and an empty one was emptied.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, Stat, flock, statat, unlinkat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::entry::Content;
use super::file_format::{self, Found, Present, Record, peek};
use super::folder::{Folder, PRIVATE};
use super::holds::{self, Life};
use super::image::{self, Image};
use super::io_error::{FileError, corrupt, system};
use super::open_files::LockFile;
use super::opening::{self, Unopened};
use super::time::{boot_id, same_kernel};
use crate::base::hex::hex;
use crate::base::{clock, token};
use crate::script::keys;

/// How much of a lock's name its file name contains, for human readers.
const SHOWN: usize = 24;
/// Names of lock files begin with a letter, a digit, `_` or `-`.
const UNNAMED: &str = ".new-";
/// How often a file may vanish between two steps before another try waits.
const TRIES: u32 = 16;

/// Returns the file name of a slot tag: readable at the front, unique at the back.
pub(super) fn file_name(tag: &str) -> String {
    let safe = |c: char| match c {
        '0'..='9' | 'A'..='Z' | 'a'..='z' | '_' | '-' => c,
        _ => '_',
    };
    let shown: String = tag.chars().take(SHOWN).map(safe).collect();
    format!("{shown}-{}", hex(&Sha256::digest(tag)[..20]))
}

/// The lock on a file, released when dropped.
#[derive(Debug)]
pub(super) struct FileLock<'a> {
    folder: &'a Folder,
    name: &'a str,
    file: Arc<LockFile>,
    /// Set if other processes find this very file under its name.
    found: Option<Stat>,
}

impl Drop for FileLock<'_> {
    fn drop(&mut self) {
        // Closing it is not enough while another thread starts a process.
        let unlocked = flock(&self.file.descriptor, FlockOperation::Unlock);
        if unlocked.is_ok() && self.found.is_some() {
            self.folder.kept.put_back(self.name, Arc::clone(&self.file));
        }
    }
}

/// Locks the file of that name. `None` when it does not exist and `create` is false.
pub(super) fn lock<'a>(
    folder: &'a Folder,
    name: &'a str,
    create: bool,
) -> Result<Option<FileLock<'a>>, FileError> {
    let failed = |error| FileError::Store(system("open lock file", &folder.lock_path(name), error));
    for turn in 1..=TRIES {
        let file = match folder.kept.take(name) {
            Some(file) => file,
            None => match open(folder, name, create, turn < TRIES) {
                Ok(Some(file)) => Arc::new(file),
                Ok(None) => return Ok(None),
                Err(FileError::Busy) => continue, // as when another process is just creating it
                Err(error) => return Err(error),
            },
        };
        match flock(&file.descriptor, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                folder.kept.put_back(name, file);
                return Err(FileError::Busy);
            }
            other => other.map_err(failed)?,
        }
        // From here on dropping releases it.
        let mut held = FileLock {
            folder,
            name,
            file,
            found: None,
        };
        // A process may have removed it since it was opened; a lock on a removed file excludes no process.
        match statat(&folder.locks, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if (found.st_dev, found.st_ino) == held.file.identity => {
                held.found = Some(found);
                return Ok(Some(held));
            }
            Ok(_) | Err(Errno::NOENT) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(FileError::Busy)
}

/// Opens the file. `linked_is_busy`: one with two names is just getting its name.
fn open(
    folder: &Folder,
    name: &str,
    create: bool,
    linked_is_busy: bool,
) -> Result<Option<LockFile>, FileError> {
    let opened = match opening::open(&folder.locks, name, OFlags::RDWR, Mode::empty()) {
        Err(Unopened::System(Errno::NOENT)) if !create => return Ok(None),
        Err(Unopened::System(Errno::NOENT)) => {
            let blank = || record(folder, &Image::default());
            Ok(make(folder, name, blank)?)
        }
        Err(opening::LINKED) if linked_is_busy => return Err(FileError::Busy),
        other => other,
    };
    let path = || folder.lock_path(name);
    let (descriptor, stat) =
        opened.map_err(|error| error.trouble(FileError::Busy, "open lock file", &path()))?;
    folder.check_file_owner(&path, &stat)?;
    Ok(Some(LockFile {
        descriptor,
        identity: (stat.st_dev, stat.st_ino),
    }))
}

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
    let name_it = || {
        if folder.file_mode != PRIVATE {
            // The mask of the process must not hide it from other users.
            rustix::fs::fchmod(&made.0, folder.file_mode)?;
        }
        flock(&made.0, FlockOperation::NonBlockingLockExclusive)?;
        file_format::prepare(made.0.as_fd(), 0, blank())?;
        rename(&folder.locks, &unnamed, name)
    };
    name_it().map_err(|error| {
        unlinkat(&folder.locks, &unnamed, AtFlags::empty()).ok();
        match error {
            // `NOENT`: a sweep removed it as the remains of a dead process.
            Errno::EXIST | Errno::NOENT | Errno::WOULDBLOCK => FileError::Busy,
            error => system("make room for lock file", &path(), error).into(),
        }
    })?;
    Ok(made)
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

/// Returns the keys as they are at this moment; under the lock only where a read without it does not tell.
pub(super) fn snapshot(folder: &Folder, name: &str, now_us: u64) -> Result<Image, FileError> {
    const TORN_TWICE: u32 = 3;
    for _ in 0..TORN_TWICE {
        let unread =
            |error: Unopened| error.trouble(FileError::Busy, "read", &folder.lock_path(name));
        match peek(&folder.locks, name).map_err(unread)? {
            None => return Ok(Image::default()),
            Some(Found::Current(present)) if !present.doubtful => {
                return understand(folder, name, &present.record, now_us);
            }
            // The lock decides whether this is damage or a write in progress.
            Some(_) => std::thread::yield_now(),
        }
    }
    match lock(folder, name, false)? {
        Some(held) => Ok(held.load(now_us)?.0),
        None => Ok(Image::default()),
    }
}

impl FileLock<'_> {
    /// True if nothing was written since the machine started.
    ///
    /// By the clock of now and by the one with which the store's time began: one of them may have been wrong.
    fn is_of_an_earlier_boot(&self) -> bool {
        let began_us = clock::wall_us().saturating_sub(self.folder.boot_us());
        let changed_us = self.found.map_or(0, |found| {
            i128::from(found.st_mtime) * 1_000_000 + i128::from(found.st_mtime_nsec) / 1000
        });
        changed_us < i128::from(began_us.min(self.folder.anchor.us))
    }

    pub(super) fn load(&self, now_us: u64) -> Result<(Image, Present), FileError> {
        let path = || self.folder.lock_path(self.name);
        let read = |length| {
            file_format::read(self.file.descriptor.as_fd(), length)
                .map_err(|error| system("read", &path(), error))
        };
        let length = self.found.map_or(0, |found| found.st_size);
        let length = u64::try_from(length).unwrap_or(0);
        let mut found = read(length)?;
        if matches!(found, Found::Blank) && self.is_of_an_earlier_boot() {
            let empty = record(self.folder, &Image::default());
            file_format::prepare(self.file.descriptor.as_fd(), length, empty)
                .map_err(|error| system("make room for lock file", &path(), error))?;
            found = read(file_format::FIRST_FILE)?;
        }
        let what = match found {
            Found::Current(Present {
                doubtful: true,
                ref record,
                ..
            }) if record.boot == boot_id() || !self.is_of_an_earlier_boot() => {
                "one of its two copies, perhaps the newer one"
            }
            Found::Current(present) => {
                let image = understand(self.folder, self.name, &present.record, now_us)?;
                return Ok((image, present));
            }
            Found::Blank => "emptied, or filled with zeros",
            Found::Damaged(what) => what,
        };
        Err(corrupt(&path(), what).into())
    }

    /// Makes the image the present state. On an error the previous state remains.
    pub(super) fn commit(&self, image: &Image, present: Present) -> Result<(), FileError> {
        if image.entries.is_empty() && self.remove() || !image.changed {
            return Ok(());
        }
        let failed = |error| system("write lock file", &self.folder.lock_path(self.name), error);
        if image.stored_entries() > image::MOST_KEYS {
            return Err(failed(Errno::FBIG).into());
        }
        let next = record(self.folder, image);
        file_format::write(self.file.descriptor.as_fd(), present, next)
            .map_err(|error| failed(error).into())
    }

    /// Removes the file; true when it is gone. Another user's file in a folder with the sticky bit remains.
    pub(super) fn remove(&self) -> bool {
        unlinkat(&self.folder.locks, self.name, AtFlags::empty()).is_ok()
    }
}

fn record(folder: &Folder, image: &Image) -> Record {
    Record {
        sequence: 0,
        boot: boot_id(),
        anchor_us: folder.anchor.us,
        boot_us: folder.boot_us(),
        payload: image::encode(image, folder.anchor.us),
    }
}

/// Returns the live keys in a record: by their ttl, by their holder's session, and by the machine's boot.
fn understand(
    folder: &Folder,
    name: &str,
    record: &Record,
    now_us: u64,
) -> Result<Image, FileError> {
    let same_boot = record.boot == boot_id();
    // In another boot the machine's clock started anew, so expiry times count in the store's time of then.
    let anchor_us = match same_boot {
        true => folder.anchor.us,
        false => record.anchor_us,
    };
    let image = image::decode(&record.payload, anchor_us);
    let mut image =
        image.ok_or_else(|| corrupt(&folder.lock_path(name), "its content makes no sense"))?;
    let life_of = |client: &str| match folder.life_of(client)? {
        life if same_boot || life == Life::Over => Ok(life),
        _ => Err(same_kernel(&folder.settings.path)),
    };
    for entry in image.entries.iter_mut().filter(|entry| entry.bound) {
        match &entry.content {
            Content::Text(text) => {
                let life = token::client_of(text).map(life_of).transpose()?;
                entry.life = life.unwrap_or_default();
            }
            Content::Sorted(members) => {
                let settled = holds::settle(members, &entry.sessionless, now_us, life_of)?;
                settled.into_iter().for_each(|settled| entry.take(settled));
            }
            Content::Hash(_) | Content::Stream(_) => {}
        }
    }
    if !same_boot {
        let entries = &mut image.entries;
        entries.retain(|entry| keys::outlives_reboot(&entry.key));
    }
    image.settle(now_us);
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_safe_readable_and_unique() {
        let name = file_name("../../etc/passwd\u{e9}");
        assert!(name.starts_with("______etc_passwd_-"), "{name}");
        let long = file_name(&"x".repeat(512));
        assert_eq!(long.len(), SHOWN + 1 + 40);
        assert_ne!(file_name("a/b"), file_name("a_b"));
    }
}
