//! Releasing a lease, of one name or of several, and ending a run.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use leaselock_fence::{Fence, Name};
use tracing::field::Empty;

use super::handle::{Lease, Mode};
use super::request_span::RequestSpan;
use crate::base::StoreError;
use crate::base::backoff::Backoff;
use crate::base::error::{Lost, LostReason, ReleaseError};
use crate::engine::services::totals::of_client::release_outcome;
use crate::engine::services::{CleanupGuard, Engine, LeaseRecord};
use crate::engine::values::calls_many::ReleaseMany;
use crate::engine::values::{Cancel, CustomLock, Item, LockServer, Release, ReleaseAnswer};

/// Releases by token. Without a reply, the request is sent once more: "not held" then means that the first one worked.
pub(crate) async fn release(
    engine: &Engine,
    name: &Name,
    fence: Option<Fence>,
    release: &Release<'_>,
    within: Duration,
) -> Result<(), ReleaseError> {
    let releases = &engine.requests.releases;
    let mut answer = releases.release(release, within).await;
    let again = answer.as_ref().is_err_and(StoreError::maybe_applied);
    if again {
        answer = Box::pin(releases.release(release, within)).await; // rare, and a large future
    }
    if let Ok(found @ (ReleaseAnswer::Expired | ReleaseAnswer::Taken)) = answer {
        answer = Box::pin(releases.release_broken(release, found, within)).await; // the same
    }
    given_back(name, fence, answer, again)
}

impl<M> Lease<M> {
    /// Releases it in the way in which it was acquired; it is of no use after that.
    ///
    /// Not by value: an async function keeps an argument that changes twice.
    pub(super) async fn release_one(&mut self) -> Result<(), ReleaseError> {
        if self.pass_on() {
            let lost = self.record.lost_by_now(); // of an owner with other guards
            let lost = lost.filter(|lost| lost.reason != LostReason::Released);
            return lost.map_or(Ok(()), |lost| Err(ReleaseError::NotHeld(lost)));
        }
        let left = (self.record.custom.as_ref()).map(|_| self.record.remaining());
        let (guard, late_requests) = (self.give_up(), self.late_requests);
        let (engine, record) = (&*self.engine, &*self.record);
        let within = engine.request_timeout(record.ttl());
        let outcome = match record.custom.as_deref().zip(left) {
            Some((custom, left)) => {
                Box::pin(release_custom(engine, record, custom, left, within)).await
            }
            None => {
                let request = release_of(record);
                release(engine, &record.name, record.fence, &request, within).await
            }
        };
        let known = matches!(outcome, Ok(()) | Err(ReleaseError::NotHeld(_)));
        if known && !late_requests {
            guard.end();
        }
        engine.erase_note(record);
        outcome
    }
}

/// Returns the request that releases this lease alone.
pub(super) fn release_of(record: &LeaseRecord) -> Release<'_> {
    Release {
        held: &record.held,
        was_queued: record.was_queued(),
    }
}

/// Releases a lease of another protocol. `left`: the time until its deadline.
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
    let server = LockServer::new(&engine.store, within);
    let answer = if left.is_zero() {
        // The lease has expired by our own clock, and not every protocol would compare the holder before it deletes.
        let cleaned = custom.clean_up(server).await;
        cleaned.map(|()| ReleaseAnswer::Expired)
    } else {
        custom.release(server, left).await
    };
    engine.shared.poll_mutexes.notify(custom.lock());
    given_back(&record.name, record.fence, answer, false)
}

/// `again`: the request was sent twice, and the first one may have worked.
pub(super) fn given_back(
    name: &Name,
    fence: Option<Fence>,
    answer: Result<ReleaseAnswer, StoreError>,
    again: bool,
) -> Result<(), ReleaseError> {
    let reason = match answer {
        Ok(ReleaseAnswer::Released) => return Ok(()),
        Ok(ReleaseAnswer::Expired | ReleaseAnswer::Taken) if again => return Ok(()),
        Ok(ReleaseAnswer::Expired) => LostReason::KeyMissing,
        Ok(ReleaseAnswer::Taken) => LostReason::TakenOver,
        Err(source) => {
            let (name, maybe) = (name.clone(), again || source.maybe_applied());
            return Err(match maybe {
                true => ReleaseError::Unknown { name, source },
                false => ReleaseError::Store { name, source },
            });
        }
    };
    Err(ReleaseError::NotHeld(Lost::new(
        name.clone(),
        fence,
        reason,
    )))
}

impl<M: Mode> Lease<M> {
    /// Releases the lease, and returns whether it was still held: a reader's or permits as well, and a leader resigns.
    ///
    /// The waiters in the queue that fit then get it in the same step. If that is a task of this client, it may get the lease
    /// without a request; `Ok` then means that this client knew of no loss.
    ///
    /// # Waiting
    /// One request, within the request timeout, and one more if the store does not find the lease: it may have been broken.
    /// Each is sent again if no reply arrives; the same request twice does no harm. Several names that one request acquired
    /// are released by one, unless one of them has waiters.
    ///
    /// # Cancel safety
    /// When dropped, the release goes on in the background.
    ///
    /// # Errors
    /// [`ReleaseError`]: nothing is held after any of them. After `NotHeld`, other clients may have held it meanwhile.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// # let lease = client.mutex("invoices").acquire().await?;
    /// if let Err(error) = lease.release().await {
    ///     println!("another client may have held the lock meanwhile: {error}");
    /// }
    /// # Ok(()) }
    /// ```
    #[doc(alias = "resign")]
    pub async fn release(mut self) -> Result<(), ReleaseError> {
        let span = RequestSpan::begin(tracing::debug_span!(
            target: "leaselock", "release", lock = %self.record.name,
            fence = self.record.fence.map(Fence::get), outcome = Empty,
        ));
        let released = if self.several.is_empty() {
            self.release_one().await
        } else {
            release_each(std::mem::take(&mut self.several).into_vec(), self.together).await
        };
        let outcome = released.as_ref().map_or_else(release_outcome, |()| "ok");
        if let Some(hold) = self.record.counted() {
            hold.totals.releases.add(outcome);
        }
        span.end(outcome);
        released
    }
}

async fn release_each(mut leases: Vec<Lease>, together: bool) -> Result<(), ReleaseError> {
    let released = match together {
        true => Box::pin(release_together(leases)).await,
        false => join_all(leases.iter_mut().map(Lease::release_one)).await,
    };
    let errors: Vec<_> = released.into_iter().filter_map(Result::err).collect();
    match errors.is_empty() {
        true => Ok(()),
        false => Err(ReleaseError::Several(errors)),
    }
}

/// Releases leases whose keys can be in one call, and returns the outcome of each, in order.
///
/// Every lease was granted at once, so none is handed over within the client. A lock with waiters is released by a
/// request of its own, which grants the next waiter.
async fn release_together(mut leases: Vec<Lease>) -> Vec<Result<(), ReleaseError>> {
    let Some(first) = leases.first() else {
        return Vec::new();
    };
    let engine = Arc::clone(first.parts().0);
    let within = engine.request_timeout(first.parts().1.ttl());
    let guards: Vec<CleanupGuard> = leases.iter_mut().map(|lease| lease.give_up()).collect();
    let item = |lease: &Lease| Item::of_release(&lease.record.held);
    let items: Vec<Item> = leases.iter().filter_map(item).collect();
    let asked = match items[..] {
        [] => Ok(Vec::new()),
        ref items => engine.store.ask_one(&ReleaseMany { items }, within).await,
    };
    // The first request may have worked, although its reply did not arrive.
    let again = asked.as_ref().is_err_and(StoreError::maybe_applied);
    let mut answers = asked.unwrap_or_default();
    answers.resize(leases.len(), None);
    let each = leases.iter().zip(guards).zip(answers);
    join_all(each.map(|((lease, guard), answer)| async move {
        let (engine, record, _) = lease.parts();
        let (name, fence) = (&record.name, record.fence);
        let outcome = match answer {
            Some(answer) if answer != ReleaseAnswer::Taken => {
                given_back(name, fence, Ok(answer), false)
            }
            // Not known, or it may have been broken.
            _ => {
                let request = release_of(record);
                Box::pin(release(engine, name, fence, &request, within)).await // rare, and large
            }
        };
        let is_known = matches!(outcome, Ok(()) | Err(ReleaseError::NotHeld(_)));
        if is_known {
            guard.end();
        }
        engine.erase_note(record);
        match outcome {
            Err(ReleaseError::NotHeld(_)) if again => Ok(()),
            outcome => outcome,
        }
    }))
    .await
}

/// Pauses between two attempts to record an end; the last one repeats.
const PAUSES_MS: &[u64] = &[20, 50, 100, 250];

impl<M> Lease<M> {
    /// Makes the request, and ends the lease if by this reply the store has given it back in the same step.
    ///
    /// A refusal after a request without a reply tells nothing, because that one may have recorded the end: it is an error.
    pub(crate) async fn end_by<T, F: Future<Output = Result<T, StoreError>>>(
        mut self,
        request: impl Fn() -> F,
        is_recorded: impl FnOnce(&T) -> bool,
    ) -> Result<T, StoreError> {
        self.set_changing(true); // a renewal may come after the end
        let (reply, lost) = self.repeat_until_over(request).await?;
        if !is_recorded(&reply) {
            return lost.map_or(Ok(reply), Err);
        }
        self.retire();
        let (engine, record, _) = self.parts();
        engine.erase_note(record);
        self.disown();
        Ok(reply)
    }

    /// Asks until the store replies, the lease ends or its ttl has passed: the work is done, and an end that is lost would
    /// have it done again. Beside the reply: the error of an earlier request that may have had its effect.
    async fn repeat_until_over<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        request: impl Fn() -> F,
    ) -> Result<(T, Option<StoreError>), StoreError> {
        let (engine, record, _) = self.parts();
        let (ttl, clock) = (record.ttl(), &engine.clock);
        let until = clock.now().plus(ttl.as_duration());
        let (mut backoff, mut lost) = (Backoff::new(PAUSES_MS), None);
        loop {
            let error = match request().await {
                Ok(reply) => return Ok((reply, lost)),
                Err(error) => error,
            };
            let may_pass = error.is_transient() || error.maybe_applied();
            if !may_pass || !self.is_held() || clock.now() >= until {
                return Err(error);
            }
            clock.sleep(backoff.next()).await;
            lost = lost.or(error.maybe_applied().then_some(error));
        }
    }

    /// Undoes the acquisition, as if the lease had never been granted. Without a reply that is repeated in the background.
    pub(crate) async fn undo(mut self) -> Result<(), StoreError> {
        self.expect_late_requests(); // the cleanup then cancels, and does not release
        let guard = self.give_up();
        let (engine, record, _) = self.parts();
        engine.erase_note(record);
        let cancel = Cancel { held: &record.held };
        let within = engine.request_timeout(record.ttl());
        engine.ask(&cancel, within).await?;
        guard.end();
        Ok(())
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use crate::Client;
    use crate::base::Clock;
    use crate::base::error::LostReason;

    /// Its holder was stopped, and goes on before the client's own thread does.
    #[tokio::test]
    async fn a_lease_that_is_given_back_after_its_deadline_counts_as_lost() {
        let clock = Clock::manual();
        let builder = Client::builder().url("mem:").clock(clock.clone());
        let client = builder.open().unwrap();
        for is_dropped in [false, true] {
            let lease = client.mutex("job").acquire().await.unwrap();
            let (engine, _, id) = lease.parts();
            engine.stop_renewal(id); // the thread has not come to it
            let lost = lease.lost();
            clock.advance(lease.ttl());
            match is_dropped {
                true => drop(lease),
                false => drop(lease.release().await), // the store may have it for the drift longer
            }
            assert_eq!(lost.await.reason, LostReason::Expired, "{is_dropped}");
        }
        assert_eq!(client.stats().kinds[0].losses["expired"], 2);
    }
}
