//! The format of a lock file: two slots of the same size, each a header and a payload.
//!
//! A write goes to the slot with the older state. Space for both is reserved beforehand, so a release works on a full
//! disk. The length of a file determines the size of its slots: half of the largest power of two that fits.
//!
//! # Which damage a crash can leave
//!
//! - A process that is killed, or whose write the system refuses. Linux copies a `write` page by page: it may stop
//!   between two pages, and not within one. A file has both copies before it gets its name, and every write puts the
//!   page with the header last. So the newer copy is whole. The older one is whole or has its old header, whose number
//!   shows that it is older. No file is empty or zeroed, and no copy lacks its header.
//! - A machine that loses power. No call waits for the disk, so any part of what was written may be missing, up to the
//!   whole file. All leases are void by then. The older copy counts for its fence. An empty file is a free lock, whose
//!   fences continue with the store's time. The time of the file's last write, before this boot, identifies this case.
//! - Every other damage was done by a program, a user or the disk. A damaged copy that may be the newer one, or an
//!   empty file, may have been a held lock: `Corrupt`, until an operator deletes the file.

#[cfg(test)]
mod tests;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::{Errno, pread, pwrite, retry_on_intr};

use super::opening::{self, Unopened};
use super::packed::length_bytes;

/// The first size of a slot. Nearly every lock keeps it: five keys and some waiters.
pub(super) const FIRST_SLOT: u64 = 2048;
/// The first size of a file.
pub(super) const FIRST_FILE: u64 = 2 * FIRST_SLOT;
/// The largest copy: room for a hundred thousand waiters. It bounds what a call reads and writes.
pub(super) const LARGEST: u64 = 32 << 20;
const HEADER: usize = 64;
const MAGIC: &[u8; 7] = b"leasefl";
/// Numbers are never used again: builds from a clone have left files of this one in the default folder.
const VERSION: u8 = 2;
const SUM_AT: usize = 8;
/// The checksum covers all bytes from here on.
const CHECKED_FROM: usize = 12;
const LENGTH_AT: usize = 12;
const SEQUENCE_AT: usize = 16;
/// The system carries out a write within one such page as a whole.
const PAGE: u64 = 4096;

/// One whole state as stored in a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) sequence: u64,
    /// The machine's boot at the write.
    pub(super) boot: [u8; 16],
    /// The distance from the machine's clock to the store's time at the write.
    pub(super) anchor_us: u64,
    /// The machine's clock at the write.
    pub(super) boot_us: u64,
    pub(super) payload: Vec<u8>,
}

impl Record {
    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER + self.payload.len());
        out.extend_from_slice(MAGIC);
        out.push(VERSION);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&length_bytes(self.payload.len()));
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.boot);
        out.extend_from_slice(&self.anchor_us.to_le_bytes());
        out.extend_from_slice(&self.boot_us.to_le_bytes());
        out.resize(HEADER, 0);
        out.extend_from_slice(&self.payload);
        let sum = crc32fast::hash(&out[CHECKED_FROM..]);
        out[SUM_AT..CHECKED_FROM].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Parses the record at the start of a slot; `None` when it is not whole.
    fn parse(slot: &[u8]) -> Option<Self> {
        let header = slot.get(..HEADER)?;
        if header[..7] != *MAGIC || header[7] != VERSION {
            return None;
        }
        let end = HEADER.checked_add(usize::try_from(u32_at(header, LENGTH_AT)?).ok()?)?;
        if crc32fast::hash(slot.get(CHECKED_FROM..end)?) != u32_at(header, SUM_AT)? {
            return None;
        }
        Some(Record {
            sequence: u64_at(header, SEQUENCE_AT)?,
            boot: header[24..40].try_into().ok()?,
            anchor_us: u64_at(header, 40)?,
            boot_us: u64_at(header, 48)?,
            payload: slot[HEADER..end].to_vec(),
        })
    }
}

/// The content of a file.
#[derive(Debug)]
pub(super) enum Found {
    /// Empty or zeros: the machine lost power, or a program emptied it.
    Blank,
    Current(Present),
    /// Both slots are bad.
    Damaged(&'static str),
}

/// The newer state of a file.
#[derive(Debug)]
pub(super) struct Present {
    pub(super) record: Record,
    pub(super) slot: u64,
    pub(super) slot_size: u64,
    /// True if the other copy may have been the newer one, with damage that no crashed process leaves.
    pub(super) doubtful: bool,
}

/// The content of one slot.
enum Copy {
    Whole(Record),
    /// A header with this number, whose record is damaged.
    Cut(u64),
    Bad,
}

impl Copy {
    fn parse(slot: &[u8]) -> Copy {
        if let Some(record) = Record::parse(slot) {
            return Copy::Whole(record);
        }
        match slot.get(..HEADER) {
            Some(header) if header[..7] == *MAGIC && header[7] == VERSION => {
                u64_at(header, SEQUENCE_AT).map_or(Copy::Bad, Copy::Cut)
            }
            _ => Copy::Bad,
        }
    }

    fn is_newer(&self, than: &Record) -> bool {
        matches!(self, Copy::Whole(record) if record.sequence > than.sequence)
    }

    /// True if this was whole once and may have been newer than that record.
    fn may_have_been_newer(&self, than: &Record) -> bool {
        match self {
            Copy::Whole(_) => false,
            Copy::Cut(sequence) => *sequence >= than.sequence,
            Copy::Bad => true,
        }
    }
}

pub(super) fn read(file: BorrowedFd<'_>, length: u64) -> Result<Found, Errno> {
    if length > 2 * LARGEST {
        return Ok(Found::Damaged("larger than any lock file"));
    }
    let slot_size = slot_size(length);
    let bytes = read_at(file, 0, length.min(2 * FIRST_FILE))?;
    if length < FIRST_FILE {
        return Ok(if all_zero(&bytes) {
            Found::Blank
        } else {
            Found::Damaged("too short")
        });
    }
    let (first, second) = if slot_size <= 2 * FIRST_SLOT {
        let middle = usize::try_from(slot_size).unwrap_or(usize::MAX);
        let (first, second) = bytes.split_at(bytes.len().min(middle));
        (Copy::parse(first), Copy::parse(second))
    } else {
        large_copies(file, slot_size)?
    };
    let current = |record, slot, other: Copy| {
        let doubtful = other.may_have_been_newer(&record);
        Found::Current(Present {
            record,
            slot,
            slot_size,
            doubtful,
        })
    };
    Ok(match (first, second) {
        (Copy::Whole(first), other) if !other.is_newer(&first) => current(first, 0, other),
        (other, Copy::Whole(second)) => current(second, 1, other),
        // The second slot is written first, and its writer may die during that.
        _ if length == FIRST_FILE && all_zero(&bytes[..bytes.len() / 2]) => Found::Blank,
        _ if all_zero(&bytes) => Found::Blank,
        _ if bytes.starts_with(MAGIC) && bytes[7] > VERSION => {
            Found::Damaged("written by a newer version of leaselock, or broken")
        }
        _ => Found::Damaged("neither of its two copies is whole"),
    })
}

/// Opens a file of the folder to read it without its lock; with its length.
fn unlocked(locks: &OwnedFd, name: &str) -> Result<(OwnedFd, u64), Unopened> {
    let (file, stat) = opening::open(locks, name, OFlags::RDONLY, Mode::empty())?;
    Ok((file, u64::try_from(stat.st_size).unwrap_or(0)))
}

/// Reads a file without its lock; `None` when it does not exist.
///
/// A writer may be writing the older copy meanwhile, which does not matter.
pub(super) fn peek(locks: &OwnedFd, name: &str) -> Result<Option<Found>, Unopened> {
    match unlocked(locks, name) {
        Err(Unopened::System(Errno::NOENT)) => Ok(None),
        opened => {
            let (file, length) = opened?;
            Ok(read(file.as_fd(), length).map(Some)?)
        }
    }
}

/// Reads both large copies; where the newer one is whole, the header of the older one is enough.
fn large_copies(file: BorrowedFd<'_>, slot_size: u64) -> Result<(Copy, Copy), Errno> {
    let header = |at| read_at(file, at, HEADER as u64).map(|bytes| Copy::parse(&bytes));
    let slot = |at| read_slot(file, at, slot_size).map(|bytes| Copy::parse(&bytes));
    let headers = (header(0)?, header(slot_size)?);
    if let (Copy::Cut(first), Copy::Cut(second)) = headers {
        let newer = slot(if first > second { 0 } else { slot_size })?;
        match newer {
            Copy::Whole(_) if first > second => return Ok((newer, headers.1)),
            Copy::Whole(_) if first < second => return Ok((headers.0, newer)),
            _ => {}
        }
    }
    Ok((slot(0)?, slot(slot_size)?))
}

fn slot_size(length: u64) -> u64 {
    length.checked_ilog2().map_or(0, |power| 1 << power) / 2
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

fn all_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn read_at(file: BorrowedFd<'_>, offset: u64, length: u64) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| Errno::FBIG)?];
    let mut done = 0;
    while done < bytes.len() {
        match retry_on_intr(|| pread(file, &mut bytes[done..], offset + done as u64))? {
            0 => break,
            more => done += more,
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

/// Reads a slot; of a large one only as much as it says it uses.
fn read_slot(file: BorrowedFd<'_>, offset: u64, slot_size: u64) -> Result<Vec<u8>, Errno> {
    let header = read_at(file, offset, HEADER as u64)?;
    let length = u32_at(&header, LENGTH_AT).unwrap_or(0);
    let whole = HEADER as u64 + u64::from(length);
    if whole > slot_size {
        return Ok(header);
    }
    read_at(file, offset, whole)
}

fn write_at(file: BorrowedFd<'_>, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
    let mut done = 0;
    while done < bytes.len() {
        done += retry_on_intr(|| pwrite(file, &bytes[done..], offset + done as u64))?;
    }
    Ok(())
}

/// Writes a copy, the page with the header last: until then the slot has the older copy's header.
fn put(file: BorrowedFd<'_>, offset: u64, record: &Record) -> Result<(), Errno> {
    let bytes = record.bytes();
    let in_first_page = usize::try_from(PAGE - offset % PAGE).unwrap_or(usize::MAX);
    let (first, rest) = bytes.split_at(bytes.len().min(in_first_page));
    write_at(file, offset + first.len() as u64, rest)?;
    write_at(file, offset, first)
}

/// Returns number and length of a file's newer state by its unchecked header, so no decision may use them.
pub(super) fn newest(locks: &OwnedFd, name: &str) -> Option<(u64, u64)> {
    let (file, length) = unlocked(locks, name).ok()?;
    let newest = [0, slot_size(length)].map(|offset| {
        let header = read_at(file.as_fd(), offset, HEADER as u64).ok()?;
        let length = u64::from(u32_at(&header, LENGTH_AT)?);
        let sequence = u64_at(&header, SEQUENCE_AT)?;
        header.starts_with(MAGIC).then_some((sequence, length))
    });
    newest.into_iter().flatten().max()
}

/// Reserves space, or else writes zeros behind `written`. A length in between counts as the old one.
fn reserve(file: BorrowedFd<'_>, old: u64, written: u64, to: u64) -> Result<(), Errno> {
    let reserved = match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, to) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            let zeros = vec![0; usize::try_from(to - written).map_err(|_| Errno::FBIG)?];
            write_at(file, written, &zeros)
        }
        other => other,
    };
    if reserved.is_err() {
        // A failure half-way may have left the file longer, which would only waste space.
        rustix::fs::ftruncate(file, old).ok();
    }
    reserved
}

/// Prepares a file: space for both slots, and an empty state in each, written as one page.
pub(super) fn prepare(file: BorrowedFd<'_>, length: u64, mut empty: Record) -> Result<(), Errno> {
    if length != FIRST_FILE {
        if length > 0 {
            rustix::fs::ftruncate(file, 0)?;
        }
        reserve(file, 0, 0, FIRST_FILE)?;
    }
    let slot = usize::try_from(FIRST_SLOT).map_err(|_| Errno::FBIG)?;
    let mut both = Vec::with_capacity(2 * slot);
    for sequence in [1, 2] {
        empty.sequence = sequence;
        both.extend_from_slice(&empty.bytes());
        both.resize(both.len().next_multiple_of(slot), 0);
    }
    write_at(file, 0, &both)
}

/// Replaces the present state by `next`, and sets its sequence.
pub(super) fn write(file: BorrowedFd<'_>, present: Present, mut next: Record) -> Result<(), Errno> {
    let (mut old, mut slot, slot_size) = (present.record, present.slot, present.slot_size);
    let needed = (HEADER + next.payload.len()) as u64;
    if needed > LARGEST {
        return Err(Errno::FBIG);
    }
    let mut size = slot_size;
    if needed > slot_size {
        if slot == 1 {
            // The first slot keeps its place when the file grows, so the present state must be there.
            old.sequence += 1;
            put(file, 0, &old)?;
            slot = 0;
        }
        let enough = needed.saturating_mul(3).div_ceil(2).next_power_of_two();
        while size < enough.min(LARGEST) {
            grow(file, &old, size)?;
            size *= 2;
        }
    }
    next.sequence = old.sequence + 1;
    let to = 1 - slot;
    put(file, to * size, &next)?;
    if to == 0 && size > FIRST_SLOT && needed <= size / 8 {
        shrink(file, &next, needed);
    }
    Ok(())
}

/// Doubles the slots; the first has the present state, and the new second one a copy before it counts.
fn grow(file: BorrowedFd<'_>, present: &Record, slot_size: u64) -> Result<(), Errno> {
    let (old, new) = (2 * slot_size, 4 * slot_size);
    let written = old + (HEADER + present.payload.len()) as u64;
    let copied = put(file, old, &earlier(present));
    copied.and_then(|()| reserve(file, old, written, new))
}

/// Frees space after a long queue, once the present state is in the first slot. On failure a later write does it.
fn shrink(file: BorrowedFd<'_>, present: &Record, needed: u64) {
    let size = (2 * needed).next_power_of_two().max(FIRST_SLOT);
    if put(file, size, &earlier(present)).is_ok() {
        rustix::fs::ftruncate(file, 2 * size).ok();
    }
}

fn earlier(present: &Record) -> Record {
    Record {
        sequence: present.sequence.saturating_sub(1),
        ..present.clone()
    }
}
