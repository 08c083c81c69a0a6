//! What the image of a file holds for a lock.

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

/// The value of a string key, which is not there in `Some(None)`.
pub(super) fn value<'a>(step: &'a Step, key: &str) -> Option<Option<&'a [u8]>> {
    match step.image.find(key) {
        None => Some(None),
        Some(entry) => entry.text().map(Some),
    }
}

/// Those in line, in order. A key without members does not exist.
pub(super) fn members<'a>(step: &'a Step, line: &str) -> Option<Option<&'a Members>> {
    match step.image.find(line).map(|entry| &entry.content) {
        None => Some(None),
        Some(Content::Sorted(members)) => Some(Some(members)),
        Some(_) => None,
    }
}

/// What a waiter's grant needs, as text.
pub(super) fn entry<'a>(step: &'a Step, waiters: &str, token: &[u8]) -> Option<Option<&'a [u8]>> {
    match step.image.find(waiters).map(|entry| &entry.content) {
        None => Some(None),
        Some(Content::Hash(fields)) => Some(fields.get(token)),
        Some(_) => None,
    }
}

/// First and last number of the latest grant, zeros when there is none.
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

/// At least this long from now; what is left then.
pub(super) fn lengthen(step: &mut Step, lock: &str, ttl_ms: u64) -> i64 {
    let left_ms = remaining_ms(step, lock);
    let ttl = i64::try_from(ttl_ms).unwrap_or(i64::MAX);
    if left_ms >= ttl {
        return left_ms;
    }
    values::prolong(step, lock, ttl_ms);
    ttl
}
