//! The arguments of a call.

use super::numbers::plain;
use super::waiter::{LOOKED_AT, TOKEN_AT, Waiter};

pub(super) fn exactly<'a, const N: usize>(
    args: impl Iterator<Item = &'a str>,
) -> Option<[&'a str; N]> {
    let (mut all, mut count) = ([""; N], 0);
    for arg in args {
        *all.get_mut(count)? = arg;
        count += 1;
    }
    (count == N).then_some(all)
}

/// The arguments of `mutex/acquire`.
pub(super) struct QueueRequest<'a> {
    pub(super) token: &'a str,
    pub(super) ttl_ms: u64,
    pub(super) fences: bool,
    /// The data of the queue entry; `None` for a request that does not queue.
    pub(super) wait: Option<(&'a str, Waiter<'a>)>,
}

impl<'a> QueueRequest<'a> {
    pub(super) fn of(args: impl Iterator<Item = &'a str>) -> Option<Self> {
        let [token, ttl_ms, wait] = exactly(args)?;
        if token.len() != LOOKED_AT - TOKEN_AT {
            return None;
        }
        let wait = match wait {
            "" => None,
            wait => Some((wait, Waiter::of(wait)?)),
        };
        Some(QueueRequest {
            token,
            ttl_ms: plain(ttl_ms)?,
            fences: fences(token.as_bytes()),
            wait,
        })
    }
}

/// True if a grant of this token has a fencing token.
pub(super) fn fences(token: &[u8]) -> bool {
    token.get(22) == Some(&b'.')
}
