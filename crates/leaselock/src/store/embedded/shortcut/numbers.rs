//! Numbers as the scripts write them.

use crate::base::fence::Fence;

/// Lua counts in doubles, and numbers of more digits are not told apart there.
const DIGITS_MAX: usize = 15;
/// Of server time in microseconds, and so of tickets.
const TIME_DIGITS: usize = 16;

/// A whole number above zero that means the same in Lua.
pub(super) fn plain(text: &str) -> Option<u64> {
    let digits = (1..=DIGITS_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number > 0)
}

/// A number of up to 16 digits that a double can hold with the next one.
pub(super) fn counted(text: &str) -> Option<u64> {
    let digits = (1..=16).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|number| digits && *number < 1 << 53)
}

/// A time in microseconds as it stands in a member.
pub(super) fn digits(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    counted(text).filter(|_| text.len() == TIME_DIGITS)
}

/// How many fences a grant reserves.
pub(super) fn reserved(text: &str) -> Option<u64> {
    plain(text).filter(|range| *range <= Fence::RANGE_MAX)
}

pub(super) fn has_16_digits(time_us: u64) -> bool {
    time_us.to_string().len() == TIME_DIGITS
}
