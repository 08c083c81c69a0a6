//! Fencing tokens as the replies of a store have them.

use leaselock_fence::Fence;

/// Returns the token of an id of the key that mints them, `ms-count`; `None` for an id that no grant writes.
pub(crate) fn of_id(id: &str) -> Option<Fence> {
    let (ms, count) = id.split_once('-')?;
    let (ms, count): (u64, u64) = (ms.parse().ok()?, count.parse().ok()?);
    let number = ms.checked_mul(1000)?.checked_add(count)?;
    Some(Fence::new(number)).filter(|fence| count < 1000 && *fence <= Fence::MAX)
}

/// Returns the token that a script replies: `0` stands for a lease without fencing.
pub(crate) fn of_reply(number: u64) -> Option<Fence> {
    (number > 0).then_some(Fence::new(number))
}
