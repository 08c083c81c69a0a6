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

/// Gives the guard of a run what its lease tells, and how to take it back: an example of that, the guard, and its error.
macro_rules! run_methods {
    ($(#[$example:meta])+ $run:ident, $error:ident) => {
        impl $run {
            /// Gives the run back as if it had never begun: it counts as no attempt. For a caller that did none of the work.
            ///
            /// # Waiting
            /// One request, within the request timeout. Without a reply it is repeated in the background.
            ///
            /// # Cancel safety
            /// When dropped, it goes on in the background.
            ///
            /// # Errors
            #[doc = concat!("[`", stringify!($error), "::Store`]: nothing is held. Until the store replies, callers find a run that")]
            /// holds the name or has crashed.
            ///
            $(#[$example])+
            pub async fn cancel(self) -> Result<(), $error> {
                Ok($crate::engine::shared_state::recorded_run::cancel(self.lease).await?)
            }

            /// Returns the lease under which it runs, to extend it or to follow its deadline.
            pub fn lease(&self) -> &$crate::engine::guard::lease::Lease<Attempt> {
                &self.lease
            }

            /// Returns the run as its body sees it.
            pub fn view(&self) -> $crate::engine::guard::lease::LeaseView<Attempt> {
                self.lease.view()
            }

            /// Returns the name that it holds.
            pub fn name(&self) -> &leaselock_fence::Name {
                self.lease.name()
            }

            /// Returns what you show to a protected resource, which refuses it when another run has begun.
            pub fn sequencer(&self) -> Option<leaselock_fence::Sequencer> {
                self.lease.sequencer()
            }

            /// Returns the fencing token of the run, larger than that of every earlier run.
            ///
            /// Pass it to what the work writes to, so that a resource can refuse a run that was replaced.
            pub fn fence(&self) -> leaselock_fence::Fence {
                self.lease.fence()
            }

            /// Returns the number of the run, from 1. With more than 1, an earlier run failed or crashed, and may have
            /// done the work in part.
            pub fn attempt(&self) -> u32 {
                self.lease.attempt()
            }

            /// Returns a future that resolves when the lease of the run ends.
            pub fn lost(&self) -> $crate::engine::services::lease::loss::LossWatch {
                self.lease.lost()
            }

            /// Returns `Err` with the reason once the lease has ended: between two steps of work, with `?`.
            ///
            /// # Errors
            /// [`Lost`](crate::Lost): stop; another run may begin.
            pub fn check(&self) -> Result<(), crate::base::error::Lost> {
                self.lease.check()
            }
        }
    };
}
pub(crate) use run_methods;
