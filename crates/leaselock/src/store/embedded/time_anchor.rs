//! The `meta` file: fixing the anchor of the store's time once per boot, and detecting changes of it.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, renameat, statat, unlinkat};
use rustix::io::Errno;

use super::file_format::{Found, Present, peek};
use super::io_error::FileError;
use super::names::Names;
use super::opening::{self, Unopened};
use super::time::{self, Meta, Traces, Unreadable};
use crate::base::{Clock, ErrorKind, StoreError, clock, hold};

const META: &str = "meta";
const META_NEW: &str = "meta.new";
const META_LOCK: &str = "meta.lock";
/// How far the store's time may advance before it is recorded again.
const RECORD_EVERY_US: u64 = 60_000_000;
/// How many lock files are read when the `meta` file is lost, and for how long.
const ASKED: usize = 256;
const ASKING: Duration = Duration::from_millis(200);

/// Inode and time of the last change, which differ for another `meta` file.
type Identity = (u64, i64, i128);

/// The anchor that this process uses, and its file.
#[derive(Debug)]
pub(super) struct TimeAnchor {
    /// The store's time when the machine started: the distance from the machine's clock.
    pub(super) us: u64,
    file: Mutex<MetaFile>,
}

/// The `meta` file as it was seen last.
#[derive(Debug)]
struct MetaFile {
    identity: Identity,
    last_us: u64,
}

impl TimeAnchor {
    /// Checks that the file confirms the anchor, which costs less than a microsecond.
    pub(super) fn check(&self, root: &OwnedFd) -> Result<(), FileError> {
        let mut file = hold(&self.file);
        let identity = identity(root).ok_or(FileError::Gone)?;
        if identity != file.identity {
            let meta = read(root).ok().flatten().ok_or(FileError::Gone)?;
            if meta.boot != time::boot_id() || meta.anchor_us != self.us {
                return Err(FileError::Gone);
            }
            let last_us = meta.last_us;
            *file = MetaFile { identity, last_us };
        }
        Ok(())
    }

    /// Records the store's time at intervals, so that it never goes back over a reboot. Any late process does it.
    pub(super) fn record(&self, root: &OwnedFd, now_us: u64, mode: Mode) {
        let mut file = hold(&self.file);
        if now_us.saturating_sub(file.last_us) < RECORD_EVERY_US {
            return;
        }
        file.last_us = now_us;
        if let (Ok(_lock), Ok(Some(meta))) = (locked(root, mode), read(root)) {
            let meta = Meta {
                last_us: now_us.max(meta.last_us),
                ..meta
            };
            // Without waiting for the disk: the fences in the lock files make up for what a power cut loses here.
            if write(root, &meta, mode, false).is_ok() {
                file.identity = identity(root).unwrap_or(file.identity);
            }
        }
    }
}

fn identity(root: &OwnedFd) -> Option<Identity> {
    let stat = statat(root, META, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some((stat.st_ino, stat.st_mtime, i128::from(stat.st_mtime_nsec)))
}

/// Reads the anchor, or fixes it when this boot has none.
pub(super) fn load(
    path: &Path,
    root: &OwnedFd,
    locks: &OwnedFd,
    clock: &Clock,
    mode: Mode,
) -> Result<TimeAnchor, FileError> {
    if let Some(meta) = usable(path, read(root))? {
        return in_use(root, &meta);
    }
    let _lock = locked(root, mode).map_err(|error| {
        error.trouble(FileError::Taken(META_LOCK), "lock", &path.join(META_LOCK))
    })?;
    let found = read(root);
    if let Some(meta) = usable(path, found.clone())? {
        return in_use(root, &meta);
    }
    // In this order: a delay between the two makes the store's time late and not early, so that fences are not ahead of
    // the clock.
    let wall_us = clock::wall_us();
    let boot_us = clock.now().as_nanos() / 1000;
    let anchor_us = match found {
        Ok(Some(earlier)) => time::fix(wall_us, boot_us, earlier.last_us),
        _ => traces(locks, clock).anchor(wall_us, boot_us),
    };
    let last_us = anchor_us.saturating_add(boot_us);
    let meta = Meta {
        boot: time::boot_id(),
        anchor_us,
        last_us,
        namespace: time::namespace(),
    };
    write(root, &meta, mode, true)
        .map_err(|(name, error)| error.error("write", &path.join(name)))?;
    in_use(root, &meta)
}

fn in_use(root: &OwnedFd, meta: &Meta) -> Result<TimeAnchor, FileError> {
    let (identity, last_us) = (identity(root).ok_or(FileError::Gone)?, meta.last_us);
    Ok(TimeAnchor {
        us: meta.anchor_us,
        file: Mutex::new(MetaFile { identity, last_us }),
    })
}

/// Returns the content, when it is of this boot; an error when the file must not be touched.
fn usable(path: &Path, found: Result<Option<Meta>, Unreadable>) -> Result<Option<Meta>, FileError> {
    let shown = path.display();
    let (kind, message) = match found {
        Ok(Some(meta)) if meta.boot != time::boot_id() => return Ok(None),
        Ok(Some(meta)) => match time::namespace() {
            here if here == meta.namespace || here.is_empty() || meta.namespace.is_empty() => {
                return Ok(Some(meta));
            }
            _ => {
                let message = format!(
                    "the folder {shown} is used from another time namespace, where the clock differs; \
                     use a server instead: redis://host"
                );
                (ErrorKind::UnsupportedFilesystem, message)
            }
        },
        Err(Unreadable::Format(format)) => {
            let ours = time::FORMAT;
            let message = format!(
                "the folder {shown} has format {format}, this leaselock knows format {ours}"
            );
            (ErrorKind::UnsupportedFilesystem, message)
        }
        Err(Unreadable::Implausible(us)) => {
            let meta = path.join(META);
            let meta = meta.display();
            let message = format!(
                "{meta} is damaged: it has the time {us} µs, after the year 2112, and fencing tokens begin there. \
                 Delete {meta}, which is safe at any time: the time then goes on from the lock files and the clock"
            );
            (ErrorKind::Corrupt, message)
        }
        Err(Unreadable::File(error)) => {
            return Err(error.trouble(FileError::Taken(META), "read", &path.join(META)));
        }
        Ok(None) | Err(Unreadable::Damaged) => return Ok(None),
    };
    Err(StoreError::refused(kind, message).into())
}

fn read(root: &OwnedFd) -> Result<Option<Meta>, Unreadable> {
    let file = match opening::open(root, META, OFlags::RDONLY, Mode::empty()) {
        Err(Unopened::System(Errno::NOENT)) => return Ok(None),
        other => other.map_err(Unreadable::File)?.0,
    };
    let mut text = [0; 512];
    let length = rustix::io::pread(&file, &mut text, 0);
    let length = length.map_err(|error| Unreadable::File(error.into()))?;
    let text = std::str::from_utf8(&text[..length]).map_err(|_| Unreadable::Damaged);
    text.and_then(Meta::parse).map(Some)
}

/// Takes the lock for writing `meta`, released with its descriptor.
fn locked(root: &OwnedFd, mode: Mode) -> Result<OwnedFd, Unopened> {
    let file = create(root, META_LOCK, mode)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

fn create(root: &OwnedFd, name: &str, mode: Mode) -> Result<OwnedFd, Unopened> {
    let there = || opening::open(root, name, OFlags::RDWR, Mode::empty());
    let file = match there() {
        Err(Unopened::System(Errno::NOENT)) => {
            let access = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
            match opening::open(root, name, access, mode) {
                Err(Unopened::System(Errno::EXIST)) => there()?,
                other => {
                    let (file, stat) = other?;
                    rustix::fs::fchmod(&file, mode)?;
                    (file, stat)
                }
            }
        }
        other => other?,
    };
    Ok(file.0)
}

fn write(
    root: &OwnedFd,
    meta: &Meta,
    mode: Mode,
    durable: bool,
) -> Result<(), (&'static str, Unopened)> {
    let put = |name: &'static str| {
        let write = || {
            let file = create(root, name, mode)?;
            rustix::fs::ftruncate(&file, 0)?;
            rustix::io::pwrite(&file, meta.text().as_bytes(), 0)?;
            if durable {
                rustix::fs::fsync(&file)?;
            }
            Ok(())
        };
        write().map_err(|error| (name, error))
    };
    put(META_NEW)?;
    match renameat(root, META_NEW, root, META) {
        // In a shared folder with the sticky bit no user may replace another's file; a torn one would be repaired.
        Err(Errno::PERM | Errno::ACCESS) => {
            unlinkat(root, META_NEW, AtFlags::empty()).ok();
            put(META)
        }
        other => other.map_err(|error| (META, error.into())),
    }
}

fn traces(locks: &OwnedFd, clock: &Clock) -> Traces {
    let mut traces = Traces::default();
    let until = clock.now().plus(ASKING);
    let names = Names::of(locks).into_iter().flatten().take(ASKED);
    for name in names.take_while(|_| clock.now() < until) {
        if let Ok(Some(Found::Current(Present { record, .. }))) = peek(locks, &name) {
            traces.add(
                &time::boot_id(),
                &record.boot,
                record.anchor_us,
                record.boot_us,
            );
        }
    }
    traces
}
