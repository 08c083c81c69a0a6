//! The state of a lock in the image of its file.

use super::numbers::counted;
use super::request::exactly;
use crate::base::fence::Fence;
use crate::store::embedded::image::Content;
use crate::store::embedded::packed::Members;
use crate::store::embedded::step::Step;
use crate::store::embedded::values;

pub(super) struct Names<'a> {
    pub(super) lock: &'a str,
    pub(super) line: &'a str,
    pub(super) waiters: &'a str,
    pub(super) fence: &'a str,
}

impl<'a> Names<'a> {
    pub(super) fn of(keys: impl Iterator<Item = &'a str>) -> Option<Self> {
        let [lock, line, waiters, fence] = exactly(keys)?;
        Some(Names {
            lock,
            line,
            waiters,
            fence,
        })
    }
}

/// Returns the value of a string key; `Some(None)` when there is none.
pub(super) fn value<'a>(step: &'a Step, key: &str) -> Option<Option<&'a [u8]>> {
    match step.image.find(key) {
        None => Some(None),
        Some(entry) => entry.text().map(Some),
    }
}

/// Returns the waiters in queue order. A key without members does not exist.
pub(super) fn members<'a>(step: &'a Step, line: &str) -> Option<Option<&'a Members>> {
    match step.image.find(line).map(|entry| &entry.content) {
        None => Some(None),
        Some(Content::Sorted(members)) => Some(Some(members)),
        Some(_) => None,
    }
}

/// Returns the data for a waiter's grant, as text.
pub(super) fn entry<'a>(step: &'a Step, waiters: &str, token: &[u8]) -> Option<Option<&'a [u8]>> {
    match step.image.find(waiters).map(|entry| &entry.content) {
        None => Some(None),
        Some(Content::Hash(fields)) => Some(fields.get(token)),
        Some(_) => None,
    }
}

/// Returns first and last fencing token of the latest grant, zeros when there is none.
pub(super) fn latest(step: &Step, fence: &str) -> Option<(u64, u64)> {
    let Some(found) = value(step, fence)? else {
        return Some((0, 0));
    };
    let (first, last) = std::str::from_utf8(found).ok()?.split_once(':')?;
    Fence::of_a_grant(counted(first)?, counted(last)?)
}

pub(super) fn remaining_ms(step: &Step, lock: &str) -> i64 {
    values::remaining_ms(step.image.find(lock), step.now_us)
}

/// Extends to at least this long from now, and returns the remaining time.
pub(super) fn lengthen(step: &mut Step, lock: &str, ttl_ms: u64) -> i64 {
    let left_ms = remaining_ms(step, lock);
    let ttl = i64::try_from(ttl_ms).unwrap_or(i64::MAX);
    if left_ms >= ttl {
        return left_ms;
    }
    values::prolong(step, lock, ttl_ms);
    ttl
}
