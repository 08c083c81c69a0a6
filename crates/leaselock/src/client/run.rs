//! Running a body under a lease.

use std::fmt;
use std::future::Future;

use tracing::Instrument;

use crate::base::error::{AcquireError, ErrorFacts, HasFacts, Lost, ReleaseError};
use crate::engine::guard::lease::handle::Mode;
use crate::engine::guard::lease::{Lease, LeaseView};

/// Why a body did not run to its end under the lease.
///
/// `E` is the error of the body, and `T` what it returns, which [`ReleasedLate`](RunError::ReleasedLate) keeps.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RunError<E, T = ()> {
    /// The lease was not acquired; the body did not begin.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lease was lost; the body was dropped at its next await.
    #[error(transparent)]
    Lost(Lost),
    /// The body's own error, whether or not the lease was held to its end. It was released, or ends at its ttl.
    #[error("{0}")]
    Body(E),
    /// The body ended after the deadline, or the release found the lease gone: others may have held the lock before its end.
    #[error("the work ended, but not under the lock to its end: {lost}")]
    ReleasedLate {
        /// What the body returned.
        value: T,
        /// Which loss that was.
        lost: Lost,
    },
}

impl<E: fmt::Debug, T> fmt::Debug for RunError<E, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Acquire(error) => f.debug_tuple("Acquire").field(error).finish(),
            RunError::Lost(lost) => f.debug_tuple("Lost").field(lost).finish(),
            RunError::Body(error) => f.debug_tuple("Body").field(error).finish(),
            RunError::ReleasedLate { lost, .. } => {
                f.debug_tuple("ReleasedLate").field(lost).finish()
            }
        }
    }
}

impl<E, T> HasFacts for RunError<E, T> {
    fn facts(&self) -> ErrorFacts<'_> {
        match self {
            RunError::Acquire(error) => error.facts(),
            RunError::Lost(lost) | RunError::ReleasedLate { lost, .. } => lost.facts(),
            RunError::Body(_) => ErrorFacts::default(),
        }
    }
}

/// Runs `body` under the lease, stops it when the lease is lost, and releases.
pub(crate) async fn run_under<M: Mode, T, E, F, Fut>(
    lease: Lease<M>,
    body: F,
) -> Result<T, RunError<E, T>>
where
    F: FnOnce(LeaseView<M>) -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    let body = body(lease.view()).instrument(lease.span());
    let ended = until_lost(lease.lost(), body).await;
    // A body that blocked its thread may have ended after the deadline, when nothing could stop it any more.
    let late = lease.check().err();
    let value = match ended {
        Ok(Ok(value)) => value,
        Ok(Err(error)) => {
            drop(lease.release().await); // the body's error is what the caller must know
            return Err(RunError::Body(error));
        }
        Err(lost) => return Err(RunError::Lost(lost)),
    };
    let found = lease.release().await.err().and_then(not_to_the_end);
    match late.or(found) {
        None => Ok(value),
        Some(lost) => Err(RunError::ReleasedLate { value, lost }),
    }
}

/// Returns the loss that a release has found. Without a reply it has found none.
fn not_to_the_end(error: ReleaseError) -> Option<Lost> {
    match error {
        ReleaseError::NotHeld(lost) => Some(lost),
        ReleaseError::Several(errors) => errors.into_iter().find_map(not_to_the_end),
        error => {
            tracing::warn!(target: "leaselock", %error, "work under a lock ended, and its release is not confirmed");
            None
        }
    }
}

/// Runs `body` to its end, or stops it where it stands when the lease is lost.
pub(crate) async fn until_lost<T>(
    lost: impl Future<Output = Lost>,
    body: impl Future<Output = T>,
) -> Result<T, Lost> {
    tokio::select! {
        biased;
        lost = lost => Err(lost),
        value = body => Ok(value),
    }
}
