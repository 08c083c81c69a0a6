//! What a waiter asked for, as its entry in line says it.

use super::numbers::{counted, digits, plain, reserved};

/// Where a member's parts begin: the token behind the ticket, and what was asked for behind the time of the look.
pub(super) const TOKEN_AT: usize = 16;
pub(super) const LOOKED_AT: usize = 47;
pub(super) const WISH_AT: usize = 64;

/// What a waiter asked for, taken apart: `priority passed_ms range channel`.
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

    /// As a member of the line shows it behind the time of its latest look.
    pub(super) fn in_member(member: &'a [u8]) -> Option<Self> {
        digits(member.get(LOOKED_AT..WISH_AT - 1)?)?;
        let wish = std::str::from_utf8(member.get(WISH_AT - 1..)?).ok()?;
        Self::of(wish.strip_prefix(' ')?)
    }

    pub(super) fn score(&self) -> Option<f64> {
        let priority: i32 = self.priority.parse().ok()?;
        // The text of it is negated in Lua, and one that is written oddly means something else there.
        (priority.to_string() == self.priority)
            .then_some(priority)?
            .checked_neg()
            .map(f64::from)
    }
}
