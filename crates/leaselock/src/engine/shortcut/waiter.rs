//! A waiter's request, as its queue entry has it.

use super::numbers::{counted, digits, reserved};
use crate::script::shortcut::plain;

/// The offsets in a member: the token behind the queue order, and the request behind the time of the poll.
pub(super) const TOKEN_AT: usize = 16;
pub(super) const LOOKED_AT: usize = 47;
pub(super) const WISH_AT: usize = 64;

/// A waiter's request, parsed: `priority passed_ms range channel`.
pub(super) struct Waiter<'a> {
    pub(super) priority: &'a str,
    pub(super) passed_ms: &'a str,
    pub(super) range: &'a str,
    pub(super) channel: &'a str,
}

impl<'a> Waiter<'a> {
    pub(super) fn of(wait: &'a str) -> Option<Self> {
        let mut words = wait.splitn(4, ' ');
        let mut next = || words.next();
        let (priority, passed_ms, range, channel) = (next()?, next()?, next()?, next()?);
        counted(priority.strip_prefix('-').unwrap_or(priority))?;
        plain(passed_ms)?;
        reserved(range)?;
        Some(Waiter {
            priority,
            passed_ms,
            range,
            channel,
        })
    }

    /// Parses the part of a member behind the time of its latest poll.
    pub(super) fn in_member(member: &'a [u8]) -> Option<Self> {
        digits(member.get(LOOKED_AT..WISH_AT - 1)?)?;
        let wish = std::str::from_utf8(member.get(WISH_AT - 1..)?).ok()?;
        Self::of(wish.strip_prefix(' ')?)
    }

    pub(super) fn score(&self) -> Option<f64> {
        let priority: i32 = self.priority.parse().ok()?;
        // Lua negates its text, and a number in an unusual form means something else there.
        (priority.to_string() == self.priority)
            .then_some(priority)?
            .checked_neg()
            .map(f64::from)
    }
}
