//! A run whose end is recorded under its name: of work that runs once, or of a tick of a schedule.
//!
//! A caller begins it, or is told why no run begins. The run holds the name as a mutex does, and one step records its end
//! and gives the name back (`Lease::end_by`). A noun says what its scripts ask for and what they tell.

use tracing::Instrument;

use super::attempt::Attempt;
use crate::base::error::{AcquireError, NounFailure};
use crate::base::{ErrorKind, StoreError};
use crate::engine::guard::lease::Lease;
use crate::engine::services::Acquiring;
use crate::engine::values::Wait;
use crate::engine::ways::ask::Ask;
use crate::engine::ways::trying::{CallNumbers, RunTerms};

/// Asks until a run begins, or there is no reason to wait for one.
///
/// `acquiring` counts a run that begins as a lease, and what a caller is told in its place not at all.
pub(crate) async fn begin<T: RunTerms>(
    acquiring: Acquiring<'_>,
    mut ask: Ask<'_>,
    asked: T,
    calls: &CallNumbers,
    wait: Wait,
) -> Result<(Option<Lease>, T::Told), AcquireError> {
    let begun = ask.begin_run(asked, calls, wait);
    let begun = begun.instrument(acquiring.span.clone()).await;
    if let Ok((None, _)) = &begun {
        acquiring.end_untold();
        return begun;
    }
    acquiring.end(begun, |(lease, _), hold| {
        if let Some(lease) = lease {
            lease.counted(hold);
        }
    })
}

/// Gives a run back as if it had never begun. Without a reply that is repeated in the background.
pub(crate) async fn cancel(lease: Lease<Attempt>) -> Result<(), NounFailure> {
    let name = lease.name().clone();
    let cancelled = lease.undo().await;
    cancelled.map_err(|source| NounFailure { name, source })
}

/// The error of a reply that does not fit to what was asked.
pub(crate) fn unexpected_reply() -> StoreError {
    let message = "a reply that no version of this script gives";
    StoreError::refused(ErrorKind::Malformed, message)
}
