//! What a hand-over tells the waiter to whom it was made. Pure.

use std::time::Duration;

use leaselock_fence::Fence;

use crate::base::{Ttl, fence};

/// A message as it came: whom it is for, and what it says when it is understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) token: &'a str,
    /// `None` for words of another version: a reason to poll, as any message is.
    pub(crate) grant: Option<Grant>,
    /// True if the lease of this token was broken, as `lua/mutex/break.lua` says it.
    pub(crate) is_break: bool,
}

/// A lease that the store has written for a waiter already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The first number that is reserved for it; `None` without fencing.
    pub(crate) fence: Option<Fence>,
    /// How many numbers are.
    pub(crate) range: u32,
    /// The store's time when it was made.
    pub(crate) time_us: u64,
    /// How long it lasts from then.
    pub(crate) ttl: Ttl,
    /// True if others were left in the queue behind it.
    pub(crate) others: bool,
}

impl<'a> Message<'a> {
    /// The token is the last word, whatever comes before it. `None` when it is no text.
    pub(crate) fn parse(message: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(message).ok()?;
        let (words, token) = text.rsplit_once(' ').unwrap_or(("", text));
        Some(Message {
            token,
            grant: Grant::parse(words),
            is_break: words == "broken",
        })
    }
}

impl Grant {
    /// `grant FENCE RANGE TIME_US TTL_MS OTHERS`, as `lua/grant.lua` writes it, and nothing else.
    fn parse(words: &str) -> Option<Self> {
        let mut words = words.strip_prefix("grant ")?.split(' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        let (fence, range) = (number()?, number()?);
        let (time_us, ttl_ms) = (number()?, number()?);
        let others = match number()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let grant = Grant {
            fence: fence::of_reply(fence),
            range: u32::try_from(range).ok()?,
            time_us,
            ttl: Ttl::new(Duration::from_millis(ttl_ms)).ok()?,
            others,
        };
        words.next().is_none().then_some(grant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(words: &str) -> Option<Grant> {
        let message = format!("{words} token");
        let message = Message::parse(message.as_bytes()).unwrap();
        assert_eq!(message.token, "token");
        message.grant
    }

    #[test]
    fn a_grant_is_read_as_the_script_writes_it() {
        let expected = Grant {
            fence: Some(Fence::new(1_795_224_695_691_371)),
            range: 1,
            time_us: 1_795_224_695_691_370,
            ttl: Ttl::new(Duration::from_secs(5)).unwrap(),
            others: true,
        };
        let words = "grant 1795224695691371 1 1795224695691370 5000 1";
        assert_eq!(grant(words), Some(expected));
        let unfenced = grant("grant 0 1 1795224695691370 5000 0").unwrap();
        assert!(unfenced.fence.is_none() && !unfenced.others);
    }

    #[test]
    fn what_is_not_understood_says_no_more_than_whom_it_is_for() {
        for words in [
            "",
            "grant",
            "grant 7 1 99 5000",
            "grant 7 99 5000",
            "grant 7 1 99 5000 0 0",
            "grant 7 1 99 5000 2",
            "grant 7 1 99 5000 -0",
            "grant -7 1 99 5000 0",
            "grant 7 1 99 5 0",
            "grant 7 4294967296 99 5000 0",
            "grant 7 1 99.5 5000 0",
            "grant 7 1 99 99999999999999 0",
            "grant  7 1 99 5000 0",
            "granted 7 1 99 5000 0",
            "offer 7 1 99 5000 0",
        ] {
            assert_eq!(grant(words), None, "{words:?}");
        }
        assert_eq!(Message::parse(b"token").unwrap().token, "token");
        assert_eq!(Message::parse(&[0xff, b' ', b'x']), None);
    }
}
