//! Releasing a lease of one name, or of several by one request.

use std::sync::Arc;

use futures_util::future::join_all;

use super::handle::Lease;
use super::mode::Mode;
use super::release::{self, given_back, release_of};
use crate::base::StoreError;
use crate::base::error::ReleaseError;
use crate::engine::services::CleanupGuard;
use crate::engine::values::calls_many::ReleaseMany;
use crate::engine::values::{Item, ReleaseAnswer};

impl<M: Mode> Lease<M> {
    /// Releases the lease, and returns whether it was still held: a reader's or permits as well, and a leader resigns.
    ///
    /// The waiters in the queue that fit then get it in the same step. If that is a task of this client, it may get the lease
    /// without a request; `Ok` then means that this client knew of no loss.
    ///
    /// # Waiting
    /// Within two request timeouts. If no reply arrives, the request is sent again; the same request twice does no
    /// harm. Several names that one request acquired are released by one, unless one of them has waiters.
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
        let hold = self.record.counted().cloned();
        let released = if self.several.is_empty() {
            self.release_one().await
        } else {
            release_each(std::mem::take(&mut self.several).into_vec(), self.together).await
        };
        if let Some(hold) = hold {
            hold.totals.add_release(&released);
        }
        released
    }
}

async fn release_each(leases: Vec<Lease>, together: bool) -> Result<(), ReleaseError> {
    let released = match together {
        true => Box::pin(release_together(leases)).await,
        false => join_all(leases.into_iter().map(Lease::release_one)).await,
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
    let (engine, ttl) = (Arc::clone(first.parts().0), first.parts().1.ttl());
    let within = engine.request_timeout(ttl);
    let guards: Vec<CleanupGuard> = leases.iter_mut().map(|lease| lease.give_up()).collect();
    let item = |lease: &Lease| Item::of(&lease.record.resource, &lease.record.token, ttl, true);
    let items: Vec<Item> = leases.iter().filter_map(item).collect();
    let asked = match items.first() {
        Some(first) => {
            let (terms, items) = (first.terms, &items[..]);
            let many = ReleaseMany { terms, items };
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
        let (name, fence) = (&record.name, record.fence);
        let outcome = match answer {
            Some(answer) if answer != ReleaseAnswer::Taken => {
                given_back(name, fence, Ok(answer), false)
            }
            // Not known, or it may have been broken.
            _ => {
                let request = release_of(record);
                Box::pin(release::release(engine, name, fence, &request, within)).await // rare, and large
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
