//! An open folder of lock files: `locks/`, `sessions/`, `wake/`, and `meta`, which keeps the time.
//!
//! A folder that only its owner may write to is private. A folder that its group or every user may write to is shared
//! (`chmod 2770` or `chmod 1777`). New files in it give them the same rights.

use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, RawMode, Stat, fchmod, fstat, mkdirat};
use rustix::io::Errno;

use super::datagram::Datagrams;
use super::holds::Life;
use super::io_error::{FileError, system, unfit};
use super::open_files::{LockFile, OpenFiles};
use super::opening;
use super::session::{Living, Session, SessionRemains};
use super::step::Surroundings;
use super::time::{self, TimeAnchor};
use crate::base::{Clock, ErrorKind, Moment, Result, StoreError, refusal};

/// The path of a folder and the client that uses it.
#[derive(Debug, Clone)]
pub(super) struct FolderSettings {
    pub(super) path: PathBuf,
    pub(super) clock: Clock,
    pub(super) client: String,
    /// True if the client's leases end with its process.
    pub(super) session: bool,
}

#[derive(Debug)]
pub(super) struct Folder {
    pub(super) settings: FolderSettings,
    pub(super) root: OwnedFd,
    pub(super) locks: OwnedFd,
    pub(super) sessions: OwnedFd,
    pub(super) wakes: Arc<OwnedFd>,
    pub(super) wake: Datagrams,
    pub(super) file_mode: Mode,
    pub(super) anchor: TimeAnchor,
    pub(super) kept: OpenFiles<Arc<LockFile>>,
    living: Living,
}

impl Folder {
    /// Opens the folder and creates what is missing.
    pub(super) fn open(settings: &FolderSettings) -> Result<Self, FileError> {
        let path = &settings.path;
        let root = open_root(path)?;
        let stat = fstat(&root).map_err(|error| system("look at", path, error))?;
        check_owner(path, stat.st_uid, stat.st_mode)?;
        #[cfg(target_os = "linux")]
        check_file_system(path, &root)?;
        let (folder_mode, file_mode) = modes(stat.st_mode);
        let locks = subfolder(&root, path, "locks", folder_mode)?;
        let sessions = subfolder(&root, path, "sessions", folder_mode)?;
        let wakes = Arc::new(subfolder(&root, path, "wake", folder_mode)?);
        let anchor = time::load(path, &root, [&locks, &sessions], &settings.clock, file_mode)?;
        let none = |error| refusal!(Unreachable: "no socket for wake-ups: {error}");
        let wake = Datagrams::new(Arc::clone(&wakes)).map_err(none)?;
        Ok(Folder {
            settings: settings.clone(),
            root,
            locks,
            sessions,
            wakes,
            wake,
            file_mode,
            anchor,
            kept: OpenFiles::default(),
            living: Living::default(),
        })
    }

    /// Closes files that stay open from one call to the next. True if there was one.
    pub(super) fn close_idle(&self) -> bool {
        let (kept, living) = (self.kept.close_all(), self.living.files.close_all());
        kept || living
    }

    /// Returns the store's time, or `Gone` when the path leads to another folder now.
    pub(super) fn time_us(&self) -> Result<u64, FileError> {
        self.anchor.check(&self.root)?;
        Ok(self.now_us())
    }

    /// Returns the store's time, whatever became of the folder.
    pub(super) fn now_us(&self) -> u64 {
        self.boot_us().saturating_add(self.anchor.us)
    }

    /// Checks a file's owner: the folder's in a private folder, any user in a shared one.
    pub(super) fn check_file_owner(&self, path: &dyn Fn() -> PathBuf, stat: &Stat) -> Result<()> {
        let me = rustix::process::geteuid().as_raw();
        if self.file_mode != PRIVATE || stat.st_uid == me {
            return Ok(());
        }
        let message = format!(
            "{} belongs to user {} although the folder is private to user {me}; \
             give it to that user with chown, or share the folder with chmod 2770 or chmod 1777",
            path().display(),
            stat.st_uid
        );
        Err(StoreError::refused(ErrorKind::Forbidden, message))
    }

    pub(super) fn lock_path(&self, name: &str) -> PathBuf {
        self.settings.path.join("locks").join(name)
    }

    pub(super) fn boot_us(&self) -> u64 {
        self.settings.clock.now().as_nanos() / 1000
    }

    pub(super) fn begin_session(&self) -> Result<Session, FileError> {
        let client = &self.settings.client;
        let (busy, path) = (FileError::Taken("sessions"), self.session_path(client));
        let session = Session::begin(&self.sessions, client, self.file_mode);
        session.map_err(|error| error.trouble(busy, "begin a session in", &path))
    }

    fn session_path(&self, client: &str) -> PathBuf {
        self.settings.path.join("sessions").join(client)
    }

    /// Returns what the session says of a lease whose client had one when it acquired it.
    pub(super) fn life_of(&self, client: &str) -> Result<Life> {
        let is_own = self.settings.session && client == self.settings.client;
        if is_own {
            return Ok(Life::Ttl);
        }
        let path = || self.session_path(client);
        let unseen = |lack| system("see whether its holder lives in", &path(), lack);
        let left = self.living.look(&self.sessions, client).map_err(unseen)?;
        let in_store_us = |limit: Moment| (limit.as_nanos() / 1000).saturating_add(self.anchor.us);
        Ok(match left {
            SessionRemains::Process => Life::Ttl,
            SessionRemains::Nobody => Life::Over,
            SessionRemains::Job(limit) => Life::Session {
                until_us: limit.map(in_store_us),
            },
        })
    }
}

impl Surroundings for Folder {
    fn present(&self, channel: &[u8]) -> bool {
        self.wake.present(channel)
    }

    fn has_session(&self, client: &str) -> bool {
        if client == self.settings.client {
            self.settings.session
        } else {
            self.living.had_session(&self.sessions, client)
        }
    }
}

fn open_root(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let open = || rustix::fs::open(path, flags, Mode::empty());
    let opened = match open() {
        Err(Errno::NOENT) => {
            let mut private = std::fs::DirBuilder::new();
            let created = private.recursive(true).mode(0o700).create(path);
            created.map_err(|error| cannot_create(path, &error))?;
            open()
        }
        other => other,
    };
    opened.map_err(|error| match error {
        Errno::NOTDIR | Errno::LOOP => cannot_create(path, &error.into()),
        _ => system("open the folder", path, error),
    })
}

fn cannot_create(path: &Path, error: &std::io::Error) -> StoreError {
    use std::io::ErrorKind as IoKind;
    let kind = match error.kind() {
        IoKind::StorageFull | IoKind::QuotaExceeded => ErrorKind::StorageFull,
        _ => ErrorKind::CannotCreate,
    };
    let path = path.display();
    let message = format!("cannot create the folder {path}: {error}; name another as file:///dir");
    StoreError::refused(kind, message)
}

const OTHERS_WRITE: RawMode = 0o022;
/// The mode of files in a folder that only its owner may write to.
pub(super) const PRIVATE: Mode = Mode::from_raw_mode(0o600);

/// Refuses another user's private folder: locks there would shut its owner out, or could be deleted by them.
fn check_owner(path: &Path, owner: u32, mode: RawMode) -> Result<()> {
    let me = rustix::process::geteuid().as_raw();
    if owner == me || mode & OTHERS_WRITE != 0 {
        return Ok(());
    }
    let path = path.display();
    let message = format!(
        "the folder {path} belongs to user {owner} alone; name another as file:///dir, \
         or let its owner share it with chmod 2770 or chmod 1777"
    );
    Err(StoreError::refused(ErrorKind::Forbidden, message))
}

#[cfg(target_os = "linux")]
fn check_file_system(path: &Path, root: &OwnedFd) -> Result<()> {
    use super::fitness;
    let found = rustix::fs::fstatfs(root)
        .map_err(|error| system("look at the file system of", path, error))?;
    let Some(name) = fitness::find(fitness::UNFIT, fitness::kind(&found)) else {
        return Ok(());
    };
    let why = format!("lies on {name}, which cannot carry locks between machines");
    Err(unfit(path, &why))
}

/// Returns the modes of folders and files within a folder of this mode.
///
/// Reading a lock file reveals tokens, which are secrets, so only users who may write to the folder may read.
fn modes(folder: RawMode) -> (Mode, Mode) {
    let (mut folders, mut files) = (0o700 | folder & 0o3000, 0o600);
    for (write, folder_bits, file_bits) in [(0o020, 0o070, 0o060), (0o002, 0o007, 0o006)] {
        if folder & write != 0 {
            folders |= folder_bits;
            files |= file_bits;
        }
    }
    (Mode::from_raw_mode(folders), Mode::from_raw_mode(files))
}

/// Opens or creates a sub-folder. In a shared folder another user may have created and own it.
fn subfolder(root: &OwnedFd, path: &Path, name: &str, mode: Mode) -> Result<OwnedFd> {
    let path = path.join(name);
    let failed = |error| system("prepare the folder", &path, error);
    let made = match mkdirat(root, name, mode) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(failed(error)),
    };
    let strange = |found| opening::strange(&path, found, "a folder of its own");
    let folder = opening::folder(root, name).map_err(|error| match error {
        Errno::LOOP => strange("a symbolic link"),
        Errno::NOTDIR => strange("no folder"),
        Errno::XDEV => strange("a mount of another file system"),
        Errno::ACCESS | Errno::PERM => closed(root, &path, name, mode),
        other => failed(other),
    })?;
    if made {
        // The mask of the process must not hide it from other users. Another user may have put theirs in its place.
        match fchmod(&folder, mode) {
            Ok(()) | Err(Errno::PERM) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(folder)
}

fn closed(root: &OwnedFd, path: &Path, name: &str, mode: Mode) -> StoreError {
    let stat = rustix::fs::statat(root, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
    let owner = stat.map_or_else(
        |_| "another user".to_owned(),
        |stat| format!("user {}", stat.st_uid),
    );
    let (path, mode) = (path.display(), mode.as_raw_mode());
    let message = format!(
        "{path} belongs to {owner}, who keeps others out; let them use chmod {mode:o}, or remove it"
    );
    StoreError::refused(ErrorKind::Forbidden, message)
}

/// Returns the default folder.
///
/// For root `/var/lib/leaselock`, for others in the home folder of the passwd entry, which unlike `$HOME` is the same
/// under `sudo` and `cron`.
pub(super) fn default_folder() -> Result<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/leaselock"));
    }
    let me = nix::unistd::User::from_uid(nix::unistd::geteuid());
    match me {
        Ok(Some(user)) if user.dir.is_absolute() => Ok(user.dir.join(".local/state/leaselock")),
        _ => {
            let message =
                "this user has no home folder in the passwd database; name a folder as file:///dir";
            Err(StoreError::refused(ErrorKind::CannotCreate, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_created_follows_the_folder_and_never_shows_tokens_to_readers() {
        for (folder, folders, files) in [
            (0o40700, 0o700, 0o600),
            (0o40755, 0o700, 0o600),
            (0o42770, 0o2770, 0o660),
            (0o41777, 0o1777, 0o666),
        ] {
            assert_eq!(
                modes(folder),
                (Mode::from_raw_mode(folders), Mode::from_raw_mode(files)),
                "{folder:o}"
            );
        }
    }

    #[test]
    fn the_private_folder_of_another_user_is_refused() {
        let me = rustix::process::geteuid().as_raw();
        assert!(check_owner(Path::new("/x"), me, 0o700).is_ok());
        assert!(check_owner(Path::new("/x"), me + 1, 0o1777).is_ok());
        let error = check_owner(Path::new("/x"), me + 1, 0o755).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Forbidden);
    }

    #[test]
    fn the_default_folder_is_an_absolute_path() {
        assert!(default_folder().unwrap().is_absolute());
    }
}
