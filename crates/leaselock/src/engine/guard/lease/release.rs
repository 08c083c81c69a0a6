//! Releasing a lease.

use std::time::Duration;

use leaselock_fence::Name;

use crate::base::error::{NotHeld, ReleaseError, StoreError};
use crate::engine::services::core::Engine;
use crate::engine::services::lease::record::LeaseRecord;
use crate::engine::values::calls::Release;
use crate::engine::values::custom::CustomLock;
use crate::engine::values::grant::ReleaseAnswer;

/// Releases by token. Without a reply, the request is sent once more: "not held" then means that the first one worked.
pub(crate) async fn release(
    engine: &Engine,
    name: &Name,
    release: &Release<'_>,
    within: Duration,
) -> Result<(), ReleaseError> {
    let first = engine.requests.release(release, within).await;
    let again = first.as_ref().is_err_and(StoreError::maybe_applied);
    let answer = if again {
        Box::pin(engine.ask(release, within)).await // rare, and a large future
    } else {
        first
    };
    given_back(name, answer, again)
}

/// Releases a lease in the way in which it was acquired. `left`: the time until its deadline.
pub(super) async fn release_record(
    engine: &Engine,
    record: &LeaseRecord,
    left: Duration,
    within: Duration,
) -> Result<(), ReleaseError> {
    let name = &record.name;
    match &record.custom {
        Some(custom) => Box::pin(release_custom(engine, name, &**custom, left, within)).await,
        None => release(engine, name, &release_of(record), within).await,
    }
}

/// Returns the request that releases this lease alone.
pub(super) fn release_of(record: &LeaseRecord) -> Release<'_> {
    Release {
        resource: &record.resource,
        token: &record.token,
        was_queued: record.was_queued(),
    }
}

/// Releases a lease of another protocol.
///
/// Without a reply the request is not sent again, because not every protocol compares before it deletes. Cleanup, which
/// does compare, handles what may be left.
async fn release_custom(
    engine: &Engine,
    name: &Name,
    custom: &dyn CustomLock,
    left: Duration,
    within: Duration,
) -> Result<(), ReleaseError> {
    let answer = if left.is_zero() {
        // The lease has expired by our own clock, and not every protocol would compare the holder before it deletes.
        let cleaned = custom.clean_up(&engine.store, within).await;
        cleaned.map(|()| ReleaseAnswer::Expired)
    } else {
        custom.release(&engine.store, left, within).await
    };
    engine.limits.poll_mutexes.notify(custom.lock());
    given_back(name, answer, false)
}

/// `again`: the request was sent twice, and the first one may have worked.
pub(super) fn given_back(
    name: &Name,
    answer: Result<ReleaseAnswer, StoreError>,
    again: bool,
) -> Result<(), ReleaseError> {
    let not_held = |why| {
        Err(ReleaseError::NotHeld {
            name: name.clone(),
            why,
        })
    };
    match answer {
        Ok(ReleaseAnswer::Released) => Ok(()),
        Ok(ReleaseAnswer::Expired | ReleaseAnswer::Taken) if again => Ok(()),
        Ok(ReleaseAnswer::Expired) => not_held(NotHeld::Expired),
        Ok(ReleaseAnswer::Taken) => not_held(NotHeld::Taken),
        Err(source) if again || source.maybe_applied() => Err(ReleaseError::Unknown {
            name: name.clone(),
            source,
        }),
        Err(source) => Err(ReleaseError::Store {
            name: name.clone(),
            source,
        }),
    }
}
