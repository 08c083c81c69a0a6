//! Releasing a lease.

use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::{Fence, Name};

use super::handle::Lease;
use crate::base::StoreError;
use crate::base::error::{Lost, LostReason, ReleaseError};
use crate::engine::services::{Engine, LeaseRecord};
use crate::engine::values::{CustomLock, Release, ReleaseAnswer};

/// Releases by token. Without a reply, the request is sent once more: "not held" then means that the first one worked.
pub(crate) async fn release(
    engine: &Engine,
    name: &Name,
    fence: Option<Fence>,
    release: &Release<'_>,
    within: Duration,
) -> Result<(), ReleaseError> {
    let first = engine.requests.releases.release(release, within).await;
    let again = first.as_ref().is_err_and(StoreError::maybe_applied);
    let answer = if again {
        Box::pin(engine.requests.releases.release(release, within)).await // rare, and a large future
    } else {
        first
    };
    given_back(name, fence, answer, again)
}

impl<M> Lease<M> {
    pub(super) async fn release_one(mut self) -> Result<(), ReleaseError> {
        if self.pass_on() {
            let lost = self.record.lost_by_now(); // of an owner with other guards
            let lost = lost.filter(|lost| lost.reason != LostReason::Released);
            return lost.map_or(Ok(()), |lost| Err(ReleaseError::NotHeld(lost)));
        }
        let left = self.remaining();
        let guard = self.give_up();
        let (engine, record) = (Arc::clone(&self.engine), Arc::clone(&self.record));
        let within = engine.request_timeout(record.ttl());
        let outcome = release_record(&engine, &record, left, within).await;
        let known = matches!(outcome, Ok(()) | Err(ReleaseError::NotHeld(_)));
        if known && !self.late_requests {
            guard.end();
        }
        self.engine.erase_note(&record);
        outcome
    }
}

/// Releases a lease in the way in which it was acquired. `left`: the time until its deadline.
pub(super) async fn release_record(
    engine: &Engine,
    record: &LeaseRecord,
    left: Duration,
    within: Duration,
) -> Result<(), ReleaseError> {
    match &record.custom {
        Some(custom) => Box::pin(release_custom(engine, record, &**custom, left, within)).await,
        None => {
            let request = release_of(record);
            release(engine, &record.name, record.fence, &request, within).await
        }
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
    record: &LeaseRecord,
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
    given_back(&record.name, record.fence, answer, false)
}

/// `again`: the request was sent twice, and the first one may have worked.
pub(super) fn given_back(
    name: &Name,
    fence: Option<Fence>,
    answer: Result<ReleaseAnswer, StoreError>,
    again: bool,
) -> Result<(), ReleaseError> {
    let not_held = |reason| {
        Err(ReleaseError::NotHeld(Lost::new(
            name.clone(),
            fence,
            reason,
        )))
    };
    match answer {
        Ok(ReleaseAnswer::Released) => Ok(()),
        Ok(ReleaseAnswer::Expired | ReleaseAnswer::Taken) if again => Ok(()),
        Ok(ReleaseAnswer::Expired) => not_held(LostReason::KeyMissing),
        Ok(ReleaseAnswer::Taken) => not_held(LostReason::TakenOver),
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
