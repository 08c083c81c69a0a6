//! Fencing tokens of a plain grant.

use super::numbers::{counted, digits, has_16_digits};
use crate::base::fence::Fence;
use crate::script::keyspace::Keyspace;

/// As in `lua/fence.lua`.
pub(super) const FENCE_KEPT_MS: u64 = 614_800_000;

/// Returns first and last fencing token of the latest grant, zeros when there is none.
pub(super) fn latest(keyspace: &dyn Keyspace, fence: &str) -> Option<(u64, u64)> {
    let Some(found) = keyspace.get(fence)? else {
        return Some((0, 0));
    };
    let (first, last) = std::str::from_utf8(found).ok()?.split_once(':')?;
    Fence::of_a_grant(counted(first)?, counted(last)?)
}

/// A plain grant of `range` fencing tokens from the present time on.
pub(super) struct Mint {
    last: u64,
    /// True if the time of its key must be extended.
    renews: bool,
}

impl Mint {
    /// Creates the grant; `None` when the clock has not passed the last fencing token that was used.
    pub(super) fn plain(
        keyspace: &dyn Keyspace,
        fence: &str,
        range: u64,
        used: Option<u64>,
    ) -> Option<Self> {
        let now_us = keyspace.now_us();
        let renews = match keyspace.get(fence)? {
            None => true,
            Some(found) => {
                let both = (digits(found.get(..16)?)?, digits(found.get(17..)?)?);
                let (first, last) = Fence::of_a_grant(both.0, both.1)?;
                let of_it = |used| has_16_digits(used) && first <= used && used < last;
                let given_back = used.is_some_and(of_it);
                let passed = if given_back { used? } else { last };
                if found[16] != b':' || (last >= now_us && passed >= now_us) {
                    return None;
                }
                first / 10_000_000_000 != now_us / 10_000_000_000
            }
        };
        let last = now_us + range - 1;
        Some(Mint { last, renews })
    }

    pub(super) fn write(&self, keyspace: &mut dyn Keyspace, fence: &str) {
        let both = format!("{}:{}", keyspace.now_us(), self.last);
        keyspace.set_keep_ttl(fence, both.as_bytes());
        if self.renews {
            keyspace.expire(fence, FENCE_KEPT_MS);
        }
    }
}
