//! The format of a lock file: two slots of the same size, each a header and a payload.
//!
//! A write goes to the slot with the older state, so a crash at any point leaves the newer one. Space for both is set
//! aside beforehand, so a release works on a full disk. A file's length says how large its slots are: half of the
//! largest power of two that fits.

use std::os::fd::BorrowedFd;

use rustix::fs::FallocateFlags;
use rustix::io::{Errno, pread, pwrite};

/// The first size of a slot. Nearly every lock stays there: five keys and some waiters.
pub(super) const FIRST_SLOT: u64 = 2048;
/// The first size of a file.
pub(super) const FIRST_FILE: u64 = 2 * FIRST_SLOT;
const HEADER: usize = 64;
const MAGIC: &[u8; 7] = b"leasefl";
const VERSION: u8 = 1;
/// The checksum covers what comes after it.
const CHECKED_FROM: usize = 12;

/// One whole state as it lies in a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) sequence: u64,
    /// The machine's boot that it was written in.
    pub(super) boot: [u8; 16],
    /// The distance from the machine's clock to the store's time when it was written.
    pub(super) anchor_us: u64,
    /// The machine's clock when it was written.
    pub(super) boot_us: u64,
    pub(super) payload: Vec<u8>,
}

impl Record {
    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER + self.payload.len());
        out.extend_from_slice(MAGIC);
        out.push(VERSION);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(
            &u32::try_from(self.payload.len())
                .unwrap_or(u32::MAX)
                .to_le_bytes(),
        );
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.boot);
        out.extend_from_slice(&self.anchor_us.to_le_bytes());
        out.extend_from_slice(&self.boot_us.to_le_bytes());
        out.resize(HEADER, 0);
        out.extend_from_slice(&self.payload);
        let sum = crc32fast::hash(&out[CHECKED_FROM..]);
        out[8..CHECKED_FROM].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// The record at the start of a slot; `None` when it is not whole.
    fn parse(slot: &[u8]) -> Option<Self> {
        let header = slot.get(..HEADER)?;
        let number = |from: usize| {
            header[from..from + 8]
                .try_into()
                .map(u64::from_le_bytes)
                .ok()
        };
        let short = |from: usize| {
            header[from..from + 4]
                .try_into()
                .map(u32::from_le_bytes)
                .ok()
        };
        if header[..7] != *MAGIC || header[7] != VERSION {
            return None;
        }
        let end = HEADER.checked_add(usize::try_from(short(12)?).ok()?)?;
        if crc32fast::hash(slot.get(CHECKED_FROM..end)?) != short(8)? {
            return None;
        }
        Some(Record {
            sequence: number(16)?,
            boot: header[24..40].try_into().ok()?,
            anchor_us: number(40)?,
            boot_us: number(48)?,
            payload: slot[HEADER..end].to_vec(),
        })
    }
}

/// What a file holds.
#[derive(Debug)]
pub(super) enum Found {
    /// Just created, and perhaps its creator died before it wrote anything: nothing was ever held here.
    Fresh,
    Current {
        record: Record,
        slot: u64,
        slot_size: u64,
    },
    /// Both slots are bad.
    Damaged(&'static str),
}

/// Reads the newer of the two states.
pub(super) fn read(file: BorrowedFd<'_>, length: u64) -> Result<Found, Errno> {
    let slot_size = slot_size(length);
    let bytes = read_at(file, 0, 2 * slot_size.min(2 * FIRST_SLOT))?;
    if length < FIRST_FILE {
        return Ok(if all_zero(&read_at(file, 0, length)?) {
            Found::Fresh
        } else {
            Found::Damaged("too short")
        });
    }
    let slots = if slot_size <= 2 * FIRST_SLOT {
        let (first, second) = bytes.split_at(
            bytes
                .len()
                .min(usize::try_from(slot_size).unwrap_or(usize::MAX)),
        );
        [Record::parse(first), Record::parse(second)]
    } else {
        [read_slot(file, 0)?, read_slot(file, slot_size)?]
    };
    Ok(match slots {
        [Some(first), Some(second)] if second.sequence > first.sequence => {
            current(second, 1, slot_size)
        }
        [Some(first), _] => current(first, 0, slot_size),
        [None, Some(second)] => current(second, 1, slot_size),
        // The very first write puts an empty state into one slot, so real data never lies beside an untouched slot.
        [None, None] if length == FIRST_FILE && untouched(&bytes) => Found::Fresh,
        [None, None] if bytes[..7] == *MAGIC && bytes[7] > VERSION => {
            Found::Damaged("written by a newer version of leaselock, or broken")
        }
        [None, None] => Found::Damaged("neither of its two copies is whole"),
    })
}

fn current(record: Record, slot: u64, slot_size: u64) -> Found {
    Found::Current {
        record,
        slot,
        slot_size,
    }
}

fn slot_size(length: u64) -> u64 {
    length.checked_ilog2().map_or(0, |power| 1 << power) / 2
}

fn all_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// The second slot is written first; whoever died during that left the first one as zeros.
fn untouched(bytes: &[u8]) -> bool {
    let half = bytes.len() / 2;
    all_zero(&bytes[..half])
}

fn read_at(file: BorrowedFd<'_>, offset: u64, length: u64) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| Errno::FBIG)?];
    let mut done = 0;
    while done < bytes.len() {
        match pread(file, &mut bytes[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(more) => done += more,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

/// Of a large slot only as much as it says it uses.
fn read_slot(file: BorrowedFd<'_>, offset: u64) -> Result<Option<Record>, Errno> {
    let header = read_at(file, offset, HEADER as u64)?;
    let Some(length) = header
        .get(12..16)
        .and_then(|bytes| bytes.try_into().ok())
        .map(u32::from_le_bytes)
    else {
        return Ok(None);
    };
    const LARGEST: u32 = 1 << 30;
    if length > LARGEST {
        return Ok(None);
    }
    Ok(Record::parse(&read_at(
        file,
        offset,
        HEADER as u64 + u64::from(length),
    )?))
}

fn write_at(file: BorrowedFd<'_>, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
    let mut done = 0;
    while done < bytes.len() {
        match pwrite(file, &bytes[done..], offset + done as u64) {
            Ok(more) => done += more,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Sets space aside. Where the file system cannot, zeros are written; a length in between counts as the old one.
fn reserve(file: BorrowedFd<'_>, from: u64, to: u64) -> Result<(), Errno> {
    let reserved = match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, to) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            let zeros = vec![0; usize::try_from(to - from).map_err(|_| Errno::FBIG)?];
            write_at(file, from, &zeros)
        }
        other => other,
    };
    if reserved.is_err() {
        // A failure half-way may have left it longer, which would only waste space.
        rustix::fs::ftruncate(file, from).ok();
    }
    reserved
}

/// Makes a fresh file ready: space for both slots, and an empty state in the second.
pub(super) fn prepare(
    file: BorrowedFd<'_>,
    length: u64,
    mut empty: Record,
) -> Result<Found, Errno> {
    if length != FIRST_FILE {
        rustix::fs::ftruncate(file, 0)?;
        reserve(file, 0, FIRST_FILE)?;
    }
    empty.sequence = 1;
    write_at(file, FIRST_SLOT, &empty.bytes())?;
    Ok(current(empty, 1, FIRST_SLOT))
}

/// Puts `next` in place of `old`, which lies in `slot`. Its sequence is set here.
pub(super) fn write(
    file: BorrowedFd<'_>,
    mut old: Record,
    mut slot: u64,
    slot_size: u64,
    mut next: Record,
) -> Result<(), Errno> {
    let needed = (HEADER + next.payload.len()) as u64;
    let mut size = slot_size;
    if needed > slot_size {
        if slot == 1 {
            // The first slot stays where it is when the file grows, so the present state must lie there.
            old.sequence += 1;
            write_at(file, 0, &old.bytes())?;
            slot = 0;
        }
        size = needed.saturating_mul(3).div_ceil(2).next_power_of_two();
        reserve(file, 2 * slot_size, 2 * size)?;
    }
    next.sequence = old.sequence + 1;
    let to = 1 - slot;
    write_at(file, to * size, &next.bytes())?;
    if to == 0 && size > FIRST_SLOT && needed <= size / 8 {
        shrink(file, needed);
    }
    Ok(())
}

/// Gives space back after a long line, once the present state lies in front. It may fail: then it is done later.
fn shrink(file: BorrowedFd<'_>, needed: u64) {
    let size = (2 * needed).next_power_of_two().max(FIRST_SLOT);
    // What lies where the second slot will be must not look like one.
    if write_at(file, size, &[0; HEADER]).is_ok() {
        rustix::fs::ftruncate(file, 2 * size).ok();
    }
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
