//! Errors of files: messages and kinds.

use std::path::Path;

use rustix::io::Errno;

use crate::base::error::{ErrorKind, StoreError, refusal};

/// Why a step with files failed.
#[derive(Debug)]
pub(super) enum FileError {
    /// Another process holds the lock file; try again in a moment.
    Busy,
    /// Another process holds this file of the folder; try again in a moment.
    Taken(&'static str),
    /// The folder was emptied or replaced while it was open; open it again.
    Gone,
    /// An immediate retry would fail too.
    Store(StoreError),
}

impl From<StoreError> for FileError {
    fn from(error: StoreError) -> Self {
        FileError::Store(error)
    }
}

/// Converts a system error about a file. The request had no effect.
pub(super) fn system(doing: &str, path: &Path, error: Errno) -> StoreError {
    let kind = match error {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => ErrorKind::StorageFull,
        Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::LOOP => ErrorKind::Forbidden,
        _ => ErrorKind::Unreachable,
    };
    StoreError::refused(kind, format!("cannot {doing} {}: {error}", path.display()))
        .with_source(error)
}

/// True if this process or the whole system had no descriptor left.
pub(super) fn lacks_descriptors(error: &StoreError) -> bool {
    let source = std::error::Error::source(error);
    let system = source.and_then(|source| source.downcast_ref::<Errno>());
    matches!(system, Some(&Errno::MFILE | &Errno::NFILE))
}

/// The folder cannot carry locks, and why.
pub(super) fn unfit(path: &Path, why: &str) -> StoreError {
    let path = path.display();
    refusal!(UnsupportedFilesystem: "the folder {path} {why}; use a server instead: redis://host")
}

pub(super) fn corrupt(path: &Path, what: &str) -> StoreError {
    let path = path.display();
    let message = format!(
        "lock file {path} is damaged ({what}); whether it is held is unknown. \
         Make sure that no job runs under this lock, and delete the file: fences go on from the store's time"
    );
    StoreError::refused(ErrorKind::Corrupt, message)
}
