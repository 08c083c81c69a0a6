//! Releasing several leases by one request.

use std::sync::Arc;

use super::handle::Lease;
use super::release::{given_back, release, release_of};
use crate::base::error::{ReleaseError, StoreError};
use crate::base::join::join_all;
use crate::engine::services::cleanup::guard::CleanupGuard;
use crate::engine::values::calls_many::{Item, ReleaseMany};

/// Releases leases whose keys can be in one call, and returns the outcome of each, in order.
///
/// Every lease was granted at once, so none is handed over within the client. A lock with waiters is released by a
/// request of its own, which grants the next waiter.
pub(crate) async fn release_all(mut leases: Vec<Lease>) -> Vec<Result<(), ReleaseError>> {
    let Some(first) = leases.first() else {
        return Vec::new();
    };
    let (engine, ttl) = (Arc::clone(first.parts().0), first.parts().1.ttl());
    let within = engine.request_timeout(ttl);
    let guards: Vec<CleanupGuard> = leases.iter_mut().map(|lease| lease.give_up()).collect();
    let item = |lease: &Lease| {
        let (_, record, _) = lease.parts();
        Item::of(&record.resource, &record.token, ttl, true)
    };
    let items: Vec<Item> = leases.iter().filter_map(item).collect();
    let asked = match items.first() {
        Some(first) => {
            let many = ReleaseMany(first.terms, &items);
            engine.store.ask_one(&many, within).await
        }
        None => Ok(Vec::new()),
    };
    // The first request may have worked, although its reply did not arrive.
    let again = asked.as_ref().is_err_and(StoreError::maybe_applied);
    let mut answers = asked.unwrap_or_default();
    answers.resize(leases.len(), None);
    let each = leases.iter().zip(guards).zip(answers);
    join_all(each.map(|((lease, guard), answer)| async move {
        let (engine, record, _) = lease.parts();
        let (name, request) = (&record.name, release_of(record));
        let outcome = match answer {
            Some(answer) => given_back(name, Ok(answer), false),
            None => Box::pin(release(engine, name, &request, within)).await, // rare, and large
        };
        let is_known = matches!(outcome, Ok(()) | Err(ReleaseError::NotHeld { .. }));
        if is_known {
            guard.end();
        }
        engine.erase_note(record);
        match outcome {
            Err(ReleaseError::NotHeld { .. }) if again => Ok(()),
            outcome => outcome,
        }
    }))
    .await
}
