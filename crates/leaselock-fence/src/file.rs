//! The fence checker of a folder of files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::retry_on_intr;

use crate::checker::{Admission, FenceChecker, FenceRefused};
use crate::invalid_input::InvalidInput;
use crate::name::Name;
use crate::sequencer::Sequencer;

/// What the checker has seen, as the text of a sequencer.
const SEEN: &str = ".fence";
/// Locked while a holder works. It is never renamed or deleted, so all processes lock the same file.
const LOCK: &str = ".fence.lock";
/// What is written before it is renamed; what a crash leaves of it is overwritten.
const NEW: &str = ".fence.new";

/// The fence checker of a folder of files on one machine, which a lock's name protects.
///
/// It keeps the newest sequencer in the folder, in `.fence`, so that a copy or a backup of the folder has both. The file
/// `.fence.lock` is locked (`flock`) while a holder is compared and works, so no other holder comes in between. The
/// folder must be on a local file system, and its users must all go through the checker.
///
/// Every call blocks its thread while another holder works; from async code, call it in `spawn_blocking`.
///
/// # Examples
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// use leaselock_fence::{FileFenceChecker, Name, Sequencer};
///
/// let checker = FileFenceChecker::new(folder, Name::new("reports")?);
/// let shown: Sequencer = "34.b.reports".parse()?; // as the holder's `Lease::sequencer` wrote it
/// let so_far = checker.read(&shown, "july")?.unwrap_or_default();
/// checker.write(&shown, "july", &[&so_far[..], b"one line more\n"].concat())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a checker checks nothing until it is asked"]
pub struct FileFenceChecker {
    folder: PathBuf,
    name: Name,
}

/// Why a [`FileFenceChecker`] did not do the work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileFenceError {
    /// The holder is late: the lease has ended. Nothing was read or written.
    #[error(transparent)]
    Refused(#[from] FenceRefused),

    /// The file's name is not valid. Nothing was read or written.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),

    /// The file system refused. A file that is written has its old or its new content, and nothing else.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl FileFenceChecker {
    /// Creates the checker of this folder, which must exist. This name protects it.
    pub fn new(folder: impl Into<PathBuf>, name: Name) -> Self {
        let folder = folder.into();
        FileFenceChecker { folder, name }
    }

    /// Reads a file of the folder as this holder; `None` when there is none.
    ///
    /// # Errors
    /// [`FileFenceError`]: nothing was read. After `Refused`, use nothing that was read before.
    pub fn read(&self, shown: &Sequencer, file: &str) -> Result<Option<Vec<u8>>, FileFenceError> {
        let path = self.path(file)?;
        self.admitted(shown, |_| match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        })
    }

    /// Writes a file of the folder as this holder: all of it or nothing, on disk when this returns.
    ///
    /// # Errors
    /// [`FileFenceError`]. After `Refused` and `Invalid` nothing was written; after `Io` the file is the old or the new
    /// one, and the same call again does no harm.
    pub fn write(&self, shown: &Sequencer, file: &str, bytes: &[u8]) -> Result<(), FileFenceError> {
        let path = self.path(file)?;
        self.admitted(shown, |folder| replace(folder, &path, bytes))
    }

    /// Admits this holder, and does `work` with the folder while no other holder is admitted.
    ///
    /// # Errors
    /// [`FileFenceError`]: `work` was not done, or it failed with `Io`.
    pub fn admitted<T>(
        &self,
        shown: &Sequencer,
        work: impl FnOnce(&Path) -> io::Result<T>,
    ) -> Result<T, FileFenceError> {
        let failed = |file: &str| {
            let path = self.folder.join(file);
            move |source| FileFenceError::Io { path, source }
        };
        let locked = self.lock().map_err(failed(LOCK))?;
        let mut checker = self.stored().map_err(failed(SEEN))?;
        if checker.admit(shown)? == Admission::Raised {
            // On disk before the work: what a crash leaves of the work is then guarded too.
            let text = shown.to_string();
            replace(&self.folder, &self.folder.join(SEEN), text.as_bytes())
                .map_err(failed(SEEN))?;
        }
        let outcome = work(&self.folder).map_err(failed(""));
        drop(locked);
        outcome
    }

    fn lock(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true);
        let file = options.open(self.folder.join(LOCK))?;
        retry_on_intr(|| flock(&file, FlockOperation::LockExclusive))?;
        Ok(file)
    }

    /// What holders before have left. Damage is an error: a checker that has forgotten admits a late holder.
    fn stored(&self) -> io::Result<FenceChecker> {
        let text = match fs::read_to_string(self.folder.join(SEEN)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(FenceChecker::new(self.name.clone()));
            }
            text => text?,
        };
        let seen: Result<Sequencer, _> = text.trim_end().parse();
        let damaged =
            "damaged: write the sequencer of the latest holder, or of a new lease, into it";
        let seen = seen.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, damaged))?;
        Ok(FenceChecker::from(seen))
    }

    fn path(&self, file: &str) -> Result<PathBuf, InvalidInput> {
        let plain = Path::new(file).file_name().is_some_and(|name| name == file);
        if !plain || file.starts_with(SEEN) {
            return Err(InvalidInput::new(format!(
                "a file of the folder is named without `/`, and not `{SEEN}…`, which is the checker's own"
            )));
        }
        Ok(self.folder.join(file))
    }
}

/// Writes a file so that a crash leaves the old or the new one. It keeps the mode of the old one.
fn replace(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = folder.join(NEW);
    drop(fs::remove_file(&new)); // what a crash has left may have any mode
    let mut file = File::create(&new)?;
    if let Ok(old) = fs::metadata(path) {
        file.set_permissions(old.permissions())?;
    }
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(folder)?.sync_all() // the name is in the folder
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn checker() -> (tempfile::TempDir, FileFenceChecker) {
        let folder = tempfile::tempdir().unwrap();
        let name = Name::new("x").unwrap();
        let checker = FileFenceChecker::new(folder.path(), name);
        (folder, checker)
    }

    fn shown(text: &str) -> Sequencer {
        text.parse().unwrap()
    }

    #[test]
    fn a_file_that_is_written_again_keeps_its_mode() {
        let (folder, checker) = checker();
        checker.write(&shown("34.b.x"), "july", b"7").unwrap();
        let mode = |mode| fs::Permissions::from_mode(mode);
        fs::set_permissions(folder.path().join("july"), mode(0o600)).unwrap();
        checker.write(&shown("35.c.x"), "july", b"8").unwrap();
        checker.write(&shown("35.c.x"), "august", b"8").unwrap();
        let found = |file| {
            fs::metadata(folder.path().join(file))
                .unwrap()
                .permissions()
        };
        assert_eq!(found("july").mode() & 0o777, 0o600);
        assert_ne!(found("august").mode() & 0o777, 0o600);
    }

    #[test]
    fn damage_is_refused_and_never_taken_for_a_folder_without_holders() {
        let (folder, checker) = checker();
        checker.write(&shown("34.b.x"), "july", b"7").unwrap();
        for damage in ["", "34", "34.b.", "\u{0}"] {
            fs::write(folder.path().join(SEEN), damage).unwrap();
            for fence in ["33.a.x", "35.c.x"] {
                let refusal = checker.write(&shown(fence), "july", b"8").unwrap_err();
                assert!(refusal.to_string().contains("damaged"), "{refusal}");
            }
        }
        fs::write(folder.path().join(SEEN), "34.b.x\n").unwrap(); // as an editor writes it
        assert_eq!(
            checker.read(&shown("35.c.x"), "july").unwrap().unwrap(),
            b"7"
        );
    }

    #[test]
    fn only_files_of_the_folder_itself_are_reached() {
        let (_folder, checker) = checker();
        for bad in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "/etc/x",
            "a/",
            ".fence",
            ".fence.lock",
        ] {
            let refusal = checker.write(&shown("33.a.x"), bad, b"").unwrap_err();
            assert!(
                matches!(refusal, FileFenceError::Invalid(_)),
                "{bad:?}: {refusal}"
            );
        }
        assert_eq!(checker.read(&shown("33.a.x"), "missing").unwrap(), None);
    }

    #[test]
    fn the_folder_of_another_name_is_refused() {
        let (folder, checker) = checker();
        checker.write(&shown("34.b.x"), "july", b"7").unwrap();
        let other = FileFenceChecker::new(folder.path(), Name::new("y").unwrap());
        let refusal = other.read(&shown("99.d.y"), "july").unwrap_err();
        assert!(
            matches!(
                refusal,
                FileFenceError::Refused(FenceRefused::OtherName { .. })
            ),
            "{refusal}"
        );
    }

    #[test]
    fn a_write_that_a_crash_cut_off_leaves_the_old_file_and_hinders_no_later_write() {
        let (folder, checker) = checker();
        checker.write(&shown("33.a.x"), "july", b"old").unwrap();
        fs::write(folder.path().join(NEW), "half of a n").unwrap();
        assert_eq!(
            checker.read(&shown("34.b.x"), "july").unwrap().unwrap(),
            b"old"
        );
        checker.write(&shown("34.b.x"), "july", b"new").unwrap();
        assert_eq!(fs::read(folder.path().join("july")).unwrap(), b"new");
    }

    /// The holder that works keeps the next one out, however long it takes.
    #[test]
    fn a_holder_that_was_admitted_ends_its_work_before_the_next_is_admitted() {
        let (_folder, checker) = checker();
        let (begun, has_begun) = std::sync::mpsc::channel();
        let (end, may_end) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let slow = scope.spawn({
                let checker = &checker;
                move || {
                    checker.admitted(&shown("33.a.x"), |folder| {
                        begun.send(()).unwrap();
                        may_end.recv().unwrap();
                        fs::write(folder.join("july"), "slow")
                    })
                }
            });
            has_begun.recv().unwrap();
            let next = scope.spawn(|| checker.write(&shown("34.b.x"), "july", b"next"));
            let waits = OpenOptions::new()
                .write(true)
                .open(checker.folder.join(LOCK));
            let busy = flock(waits.unwrap(), FlockOperation::NonBlockingLockExclusive);
            assert_eq!(busy, Err(rustix::io::Errno::WOULDBLOCK));
            end.send(()).unwrap();
            slow.join().unwrap().unwrap();
            next.join().unwrap().unwrap();
        });
        assert_eq!(
            checker.read(&shown("34.b.x"), "july").unwrap().unwrap(),
            b"next"
        );
    }
}
