//! Running a body under a lease.

use std::future::Future;

use super::named::Named;
use crate::base::error::{AcquireError, ErrorFacts, HasFacts, Lost, ReleaseError};
use crate::engine::guard::lease::{Lease, LeaseView};

/// The result of a body that ran under a lease.
#[derive(Debug)]
#[must_use = "dropping it drops what the body returned, and whether the lease was held to the end (`released`)"]
#[non_exhaustive]
pub struct RunResult<T, E = ReleaseError> {
    /// What the body returned.
    pub value: T,
    /// Whether the release was confirmed. After `NotHeld`, others may have held the lock before the body had ended.
    pub released: Result<(), E>,
}

/// Why a body did not run, or was stopped before its end.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The lease was not acquired; the body did not begin.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lease was lost; the body was stopped where it stood.
    #[error(transparent)]
    Lost(#[from] Lost),
}

impl HasFacts for RunError {
    fn facts(&self) -> ErrorFacts<'_> {
        match self {
            RunError::Acquire(error) => error.facts(),
            RunError::Lost(lost) => lost.facts(),
        }
    }
}

impl Named {
    /// Acquires the lock, runs `body`, stops it when the lease is lost, and releases.
    pub(crate) async fn run<T, F, Fut>(&self, body: F) -> Result<RunResult<T>, RunError>
    where
        F: FnOnce(LeaseView) -> Fut,
        Fut: Future<Output = T>,
    {
        run_under(self.acquire().await?, body).await
    }
}

/// Runs `body` under the lease, stops it when the lease is lost, and releases.
pub(crate) async fn run_under<T, F, Fut>(lease: Lease, body: F) -> Result<RunResult<T>, RunError>
where
    F: FnOnce(LeaseView) -> Fut,
    Fut: Future<Output = T>,
{
    let value = until_lost(lease.lost(), body(lease.view())).await?;
    let released = lease.release().await;
    Ok(RunResult { value, released })
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
