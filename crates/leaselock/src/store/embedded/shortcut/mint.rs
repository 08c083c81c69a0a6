//! Fencing tokens of a plain grant.

use super::numbers::{digits, has_16_digits};
use super::state::value;
use crate::base::fence::Fence;
use crate::store::embedded::step::Step;
use crate::store::embedded::values;

/// As in `lua/fence.lua`.
pub(super) const FENCE_KEPT_MS: u64 = 614_800_000;

/// A plain grant of `range` fencing tokens from the present time on.
pub(super) struct Mint {
    pub(super) last: u64,
    /// True if the time of its key must be extended.
    renews: bool,
}

impl Mint {
    /// Creates the grant; `None` when the clock has not passed the last fencing token that was used.
    pub(super) fn plain(step: &Step, fence: &str, range: u64, used: Option<u64>) -> Option<Self> {
        let now_us = step.now_us;
        let renews = match value(step, fence)? {
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

    pub(super) fn write(&self, step: &mut Step, fence: &str) {
        let both = format!("{}:{}", step.now_us, self.last);
        values::keep_end(&mut step.image, fence, both.as_bytes());
        if self.renews {
            values::prolong(step, fence, FENCE_KEPT_MS);
        }
    }
}
