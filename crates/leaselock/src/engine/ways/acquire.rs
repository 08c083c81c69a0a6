//! Acquiring one lock: for an owner, or in the way that [`grant`] chooses.

use std::sync::Arc;

use super::ask::Ask;
use super::choice::grant;
use super::local::groups::LocalGroups;
use super::owned::Owned;
use super::way::Way;
use crate::base::error::AcquireError;
use crate::engine::guard::lease::Lease;
use crate::engine::values::request::Wait;

/// Follows the wait policy to its end.
pub(crate) async fn acquire(
    mut ask: Ask<'_>,
    wait: Wait,
    groups: &Arc<LocalGroups>,
) -> Result<Lease, AcquireError> {
    match ask.owner.clone().filter(|_| ask.becomes.is_none()) {
        None => grant(&mut ask, wait, groups).await, // the owner of a lease that changes holds it already
        Some(owner) => {
            let owned = Owned {
                ask: &mut ask,
                owner,
                wait,
                groups,
            };
            Box::pin(owned.run()).await // seldom
        }
    }
}
