//! Numbers as the mutex's scripts write them.

use crate::base::fence::Fence;
use crate::script::shortcut::{plain, up_to};

/// Digits of server time in microseconds, and so of a queue entry's order.
const TIME_DIGITS: usize = 16;

/// Parses a number of up to 16 digits, if a double can hold it and the next one.
pub(super) fn counted(text: &str) -> Option<u64> {
    up_to(TIME_DIGITS, text).filter(|number| *number < 1 << 53)
}

/// Parses a time in microseconds as stored in a member.
pub(super) fn digits(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    counted(text).filter(|_| text.len() == TIME_DIGITS)
}

/// Parses how many fencing tokens a grant reserves.
pub(super) fn reserved(text: &str) -> Option<u64> {
    plain(text).filter(|range| *range <= Fence::RANGE_MAX)
}

pub(super) fn has_16_digits(time_us: u64) -> bool {
    time_us.to_string().len() == TIME_DIGITS
}
