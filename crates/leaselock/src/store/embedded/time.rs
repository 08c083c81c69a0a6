//! The store's time: the machine's clock plus an anchor that is fixed once per boot.
//!
//! The folder's `meta` file keeps the anchor and the last recorded time. So the store's time never steps while the
//! machine runs, whatever becomes of the wall clock, and continues from there after a reboot. A process that uses an
//! anchor detects changes of the file, and that the path leads to the file of another folder.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, renameat, statat, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;

use super::file_format::{Found, Present, peek};
use super::io_error::{FileError, system, unfit};
use super::opening::{self, Names, Unopened};
use super::session;
use crate::base::hex::hex;
use crate::base::{Clock, ErrorKind, StoreError, clock, hold};

/// The number of the machine's present boot.
pub(super) type BootId = [u8; 16];

pub(super) const FORMAT: u32 = 1;
/// A time that only a wrong clock shows: the year 2112.
///
/// Fencing tokens begin with the time, and scripts do not distinguish numbers above 2^53.
const LATEST_US: u64 = 1 << 52;
const META: &str = "meta";
const META_NEW: &str = "meta.new";
const META_LOCK: &str = "meta.lock";
/// How far the store's time may advance before it is recorded again.
const RECORD_EVERY_US: u64 = 60_000_000;
/// How many lock files are read when the `meta` file is lost, and for how long.
const ASKED: usize = 256;
const ASKING: Duration = Duration::from_millis(200);
/// How many files of sessions are checked when the boot is another: less than a call may take.
const SESSIONS: usize = 10_000;

/// Returns the boot of this process; zeros where the system has no such number.
pub(super) fn boot_id() -> BootId {
    static BOOT: OnceLock<BootId> = OnceLock::new();
    let known = BOOT.get().copied().or_else(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let boot = parse_hex(&text.trim().replace('-', ""))?;
        Some(*BOOT.get_or_init(|| boot))
    });
    known.unwrap_or_default()
}

/// Returns the time namespace of this process, in which the machine's clock may be shifted; empty when unknown.
pub(super) fn namespace() -> String {
    let link = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
    link.to_string_lossy().into_owned()
}

/// Returns the anchor for a boot: by the wall clock, unless that is not after the last recorded time.
pub(super) fn fix(wall_us: u64, boot_us: u64, last_us: u64) -> u64 {
    let us = wall_us.max(last_us.saturating_add(1));
    us.saturating_sub(boot_us)
}

/// The content of the `meta` file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) boot: BootId,
    pub(super) anchor_us: u64,
    /// The store's time at the write.
    pub(super) last_us: u64,
    pub(super) namespace: String,
}

/// Why a `meta` file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// It was not opened or read.
    File(Unopened),
    /// Another format, so other programs use this folder: it is left alone.
    Format(String),
    /// A time that no correct clock had.
    Implausible(u64),
    /// Truncated or garbled: the anchor is found in the lock files.
    Damaged,
}

impl Meta {
    pub(super) fn text(&self) -> String {
        let boot = hex(&self.boot);
        format!(
            "leaselock folder {FORMAT}\nboot {boot}\nanchor_us {}\nlast_us {}\ntime_namespace {}\nend\n",
            self.anchor_us, self.last_us, self.namespace
        )
    }

    pub(super) fn parse(text: &str) -> Result<Self, Unreadable> {
        let mut lines = text.lines();
        let format = lines.next();
        let format = format.and_then(|line| line.strip_prefix("leaselock folder "));
        match format.map(|format| (format, format.parse())) {
            Some((_, Ok(FORMAT))) => {}
            Some((format, Ok(_))) => return Err(Unreadable::Format(format.to_owned())),
            _ => return Err(Unreadable::Damaged),
        }
        let mut field = |name: &str| {
            let line = lines.next().and_then(|line| line.strip_prefix(name));
            line.map(|value| value.trim_start().to_owned())
                .ok_or(Unreadable::Damaged)
        };
        let number = |text: &str| text.parse().map_err(|_| Unreadable::Damaged);
        let meta = Meta {
            boot: parse_hex(&field("boot")?).ok_or(Unreadable::Damaged)?,
            anchor_us: number(&field("anchor_us")?)?,
            last_us: number(&field("last_us")?)?,
            namespace: field("time_namespace")?,
        };
        field("end")?;
        match meta.anchor_us.max(meta.last_us) {
            us if us > LATEST_US => Err(Unreadable::Implausible(us)),
            _ => Ok(meta),
        }
    }
}

/// What lock files show about time, when the `meta` file is lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Traces {
    /// The anchor of this boot.
    pub(super) anchor_us: Option<u64>,
    /// The latest time of a write in an earlier boot.
    pub(super) last_us: u64,
}

impl Traces {
    pub(super) fn add(&mut self, this_boot: &BootId, boot: &BootId, anchor_us: u64, boot_us: u64) {
        if anchor_us.saturating_add(boot_us) > LATEST_US {
            return; // written while `meta` had a time that no clock had
        }
        if boot == this_boot {
            self.anchor_us = self.anchor_us.max(Some(anchor_us));
        } else {
            self.last_us = self.last_us.max(anchor_us.saturating_add(boot_us));
        }
    }

    pub(super) fn anchor(&self, wall_us: u64, boot_us: u64) -> u64 {
        self.anchor_us
            .unwrap_or_else(|| fix(wall_us, boot_us, self.last_us))
    }
}

fn parse_hex(text: &str) -> Option<BootId> {
    let number = u128::from_str_radix(text, 16).ok()?;
    (text.len() == 32).then(|| number.to_be_bytes())
}

/// Device, inode and time of the last change, which differ for another `meta` file.
type Identity = (u64, u64, i64, i128);

/// The anchor that this process uses, and its file.
#[derive(Debug)]
pub(super) struct TimeAnchor {
    /// The store's time when the machine started: the distance from the machine's clock.
    pub(super) us: u64,
    path: PathBuf,
    /// The `meta` file as it was seen last, and the time that was recorded in it.
    seen: Mutex<(Identity, u64)>,
}

impl TimeAnchor {
    /// Checks that the path still leads to the file, which confirms the anchor. Costs about a microsecond.
    pub(super) fn check(&self, root: &OwnedFd) -> Result<(), FileError> {
        let mut seen = hold(&self.seen);
        let found = match identity(CWD, &self.path) {
            Err(Errno::ACCESS) => identity(root, META), // a process that has given up rights goes on
            found => found,
        };
        let found = found.map_err(|_| FileError::Gone)?;
        if found != seen.0 {
            let meta = read(root).ok().flatten().ok_or(FileError::Gone)?;
            let moved = identity(root, META) != Ok(found);
            if moved || meta.boot != boot_id() || meta.anchor_us != self.us {
                return Err(FileError::Gone);
            }
            *seen = (found, meta.last_us);
        }
        Ok(())
    }

    /// Records the store's time at intervals, so that it never goes back over a reboot. Any late process does it.
    pub(super) fn record(&self, root: &OwnedFd, now_us: u64, mode: Mode) {
        let (file, last_us) = &mut *hold(&self.seen);
        if now_us.saturating_sub(*last_us) < RECORD_EVERY_US {
            return;
        }
        *last_us = now_us;
        if let (Ok(_lock), Ok(Some(meta))) = (locked(root, mode), read(root)) {
            let last_us = now_us.max(meta.last_us);
            let meta = Meta { last_us, ..meta };
            // Without waiting for the disk: the fences in the lock files make up for what a power cut loses here.
            if write(root, &meta, mode, false).is_ok() {
                *file = identity(root, META).unwrap_or(*file);
            }
        }
    }
}

fn identity(folder: impl AsFd, meta: impl Arg) -> Result<Identity, Errno> {
    let stat = statat(folder, meta, AtFlags::SYMLINK_NOFOLLOW)?;
    let changed_ns = i128::from(stat.st_mtime_nsec);
    Ok((stat.st_dev, stat.st_ino, stat.st_mtime, changed_ns))
}

/// Reads the anchor, or fixes it when this boot has none.
pub(super) fn load(
    path: &Path,
    root: &OwnedFd,
    [locks, sessions]: [&OwnedFd; 2],
    clock: &Clock,
    mode: Mode,
) -> Result<TimeAnchor, FileError> {
    if cfg!(target_os = "linux") && boot_id() == BootId::default() {
        if let Err(error) = rustix::io::dup(root) {
            return Err(system("open", path, error).into()); // no descriptor is left to read it
        }
        let why = "ends leases with the machine's boot, and this process cannot read which it is in \
                   /proc/sys/kernel/random/boot_id; let it (ProcSubset=all in a unit of systemd)";
        return Err(unfit(path, why).into());
    }
    if let Some(meta) = usable(path, read(root))? {
        return in_use(path, root, &meta);
    }
    let _lock = locked(root, mode).map_err(|error| {
        error.trouble(FileError::Taken(META_LOCK), "lock", &path.join(META_LOCK))
    })?;
    let found = read(root);
    if let Some(meta) = usable(path, found.clone())? {
        return in_use(path, root, &meta);
    }
    let mut others = Names::of(sessions).into_iter().flatten().take(SESSIONS);
    if matches!(found, Ok(Some(_))) && others.any(|file| session::is_held(sessions, &file)) {
        return Err(same_kernel(path).into());
    }
    // In this order: a delay between the two makes the store's time late and not early, so that fences are not ahead of
    // the clock.
    let wall_us = clock::wall_us();
    let boot_us = clock.now().as_nanos() / 1000;
    let anchor_us = match found {
        Ok(Some(earlier)) => fix(wall_us, boot_us, earlier.last_us),
        _ => traces(locks, clock).anchor(wall_us, boot_us),
    };
    let last_us = anchor_us.saturating_add(boot_us);
    let meta = Meta {
        boot: boot_id(),
        anchor_us,
        last_us,
        namespace: namespace(),
    };
    write(root, &meta, mode, true)
        .map_err(|(name, error)| error.error("write", &path.join(name)))?;
    in_use(path, root, &meta)
}

fn in_use(path: &Path, root: &OwnedFd, meta: &Meta) -> Result<TimeAnchor, FileError> {
    // Not by the path, which may lead elsewhere by now.
    let identity = identity(root, META).map_err(|_| FileError::Gone)?;
    Ok(TimeAnchor {
        us: meta.anchor_us,
        path: path.join(META),
        seen: Mutex::new((identity, meta.last_us)),
    })
}

/// Returns the content, when it is of this boot; an error when the file must not be touched.
fn usable(path: &Path, found: Result<Option<Meta>, Unreadable>) -> Result<Option<Meta>, FileError> {
    let error = match found {
        Ok(None) | Err(Unreadable::Damaged) => return Ok(None),
        Ok(Some(meta)) if meta.boot != boot_id() => return Ok(None),
        Ok(Some(meta)) => match namespace() {
            here if here == meta.namespace || here.is_empty() || meta.namespace.is_empty() => {
                return Ok(Some(meta));
            }
            _ => unfit(path, "is used from a time namespace with another clock"),
        },
        Err(Unreadable::Format(format)) => {
            let why = format!("has format {format}, and this leaselock knows format {FORMAT}");
            unfit(path, &why)
        }
        Err(Unreadable::Implausible(us)) => {
            let meta = path.join(META);
            let meta = meta.display();
            let message = format!(
                "{meta} is damaged: it has the time {us} µs, after the year 2112, and fencing tokens begin there. \
                 Delete {meta}, which is safe at any time: the time then goes on from the lock files and the clock"
            );
            StoreError::refused(ErrorKind::Corrupt, message)
        }
        Err(Unreadable::File(error)) => {
            return Err(error.trouble(FileError::Taken(META), "read", &path.join(META)));
        }
    };
    Err(error.into())
}

/// Not a reboot, although the boot id is another: no session outlives one.
pub(super) fn same_kernel(path: &Path) -> StoreError {
    unfit(path, "is in use with another boot_id: one is made up")
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
            traces.add(&boot_id(), &record.boot, record.anchor_us, record.boot_us);
        }
    }
    traces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> Meta {
        Meta {
            boot: [9; 16],
            anchor_us: 17,
            last_us: 42,
            namespace: "time:[4026531834]".to_owned(),
        }
    }

    #[test]
    fn a_meta_file_comes_back_from_its_text_and_no_part_of_it_does() {
        let text = meta().text();
        assert_eq!(Meta::parse(&text), Ok(meta()));
        for length in 0..text.len() - 1 {
            assert_eq!(
                Meta::parse(&text[..length]),
                Err(Unreadable::Damaged),
                "{length}"
            );
        }
        let unknown = text.replace("folder 1", "folder 2");
        assert_eq!(
            Meta::parse(&unknown),
            Err(Unreadable::Format("2".to_owned()))
        );
    }

    #[test]
    fn time_goes_on_from_the_last_recorded_when_the_wall_clock_is_earlier() {
        let (wall, boot, last) = (1_000, 500, 70_000);
        assert_eq!(fix(wall, boot, last) + boot, last + 1);
        assert_eq!(fix(90_000, boot, last) + boot, 90_000);
        assert_eq!(fix(3, boot, 4), 0, "a clock from before the boot");
    }

    #[test]
    fn lock_files_of_this_boot_give_the_very_same_anchor_back() {
        let mut traces = Traces::default();
        traces.add(&[1; 16], &[2; 16], 1_000_000, 500);
        assert_eq!(traces.anchor(10, 100) + 100, 1_000_501);
        traces.add(&[1; 16], &[1; 16], 77, 3);
        assert_eq!(traces.anchor(10, 100), 77);
    }

    #[test]
    fn this_boot_has_a_number() {
        assert!(!cfg!(target_os = "linux") || boot_id() != [0; 16]);
    }
}
