//! A run whose end is recorded under its name: of work that runs once, or of a tick of a schedule.
//!
//! A caller begins it, or is told why no run begins. The run holds the name as a mutex does, and one step records its end
//! and gives the name back (`Lease::end_by`). A noun says what its scripts ask for and what they tell. Its run is the way in
//! which that lease is held.

use leaselock_fence::{Fence, Name};
use tracing::Instrument;

use crate::base::error::AcquireError;
use crate::base::{ErrorKind, StoreError};
use crate::engine::guard::lease::Lease;
use crate::engine::services::Acquiring;
use crate::engine::values::grant::seen;
use crate::engine::values::{Acquired, Wait};
use crate::engine::ways::ask::Ask;
use crate::engine::ways::begin_run::{CallNumbers, RunTerms, Tried};
use crate::script::{Answer, Malformed};

/// What a caller is told: of its run, or why it has none, as the noun says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunReply<R, N> {
    Run(R),
    /// The caller waits for another run, of this fencing token if the script tells it.
    Behind(Option<Fence>),
    /// The caller waits for another lock of the name, or nothing is granted at present.
    Busy,
    /// There is no reason to wait.
    NoRun(N),
}

impl<R, N> RunReply<R, N> {
    /// Adds what the same answer says of the lock, as for every kind of lock.
    pub(crate) fn tried(self, answer: &Answer) -> Result<Tried<Self>, Malformed> {
        let acquired = match self {
            RunReply::Run(_) | RunReply::Busy => Some(Acquired::decode(answer)?),
            RunReply::Behind(_) => Some(Acquired::Busy {
                seen: seen(answer)?,
            }),
            RunReply::NoRun(_) => None,
        };
        Ok((acquired, self))
    }
}

/// Asks until a run begins, or there is no reason to wait for one, which is the inner error.
///
/// `acquiring` counts a run that begins as a lease, and what a caller is told in its place not at all.
pub(crate) async fn begin<R, N, T: RunTerms<Told = RunReply<R, N>>>(
    acquiring: Acquiring<'_>,
    mut ask: Ask<'_>,
    asked: T,
    calls: &CallNumbers,
    wait: Wait,
) -> Result<Result<(Lease, R), N>, AcquireError> {
    let begun = ask.begin_run(asked, calls, wait);
    let begun = begun.instrument(acquiring.span.clone()).await;
    if let Ok((None, RunReply::NoRun(why))) = begun {
        acquiring.end_untold();
        return Ok(Err(why));
    }
    let begun = begun.and_then(|begun| match begun {
        (Some(lease), RunReply::Run(run)) => Ok((lease, run)),
        _ => Err(unexpected_reply(ask.name)),
    });
    acquiring
        .end(begun, |(lease, _), span, hold| lease.counted(span, hold))
        .map(Ok)
}

/// Whether another run may begin after one that did not end.
///
/// A run crashes when its process dies, when it loses its lease, and when its future is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnCrash {
    /// Another run may begin: the work is done at least once.
    Again,
    /// No other run begins, and who asks is told of the crash. Together with
    /// [`keep_failures`](crate::once::Once::keep_failures) the work of a [`Once`](crate::once::Once) is done at most once: a
    /// body that returns an error says that it may be done again.
    Refuse,
}

/// What the step says that ends a run: its end is recorded, or what has begun since, as far as that is known.
pub(crate) type Ended<S> = Result<(), Option<S>>;

/// The error of a reply that does not fit to what was asked.
pub(crate) fn unexpected_reply(name: &Name) -> AcquireError {
    let message = "a reply that no version of this script gives";
    let (name, source) = (
        name.clone(),
        StoreError::refused(ErrorKind::Malformed, message),
    );
    AcquireError::Store { name, source }
}

/// Gives the handle of recorded work the options of each run.
macro_rules! run_setters {
    () => {
        /// Sets how long the lease of a run lasts without renewal, as [`Mutex::ttl`](crate::Mutex::ttl): 10 s by default.
        ///
        /// So long after a crash the name is free again, and others know of the crash; in a folder, at once.
        pub fn ttl(mut self, ttl: Duration) -> Self {
            self.named.options.ttl = Some(ttl);
            self
        }

        /// Sets the longest time of a run, after which it is lost and counts as crashed; unlimited by default.
        pub fn max_hold(mut self, longest: Duration) -> Self {
            self.named.options.max_hold = Some(longest);
            self
        }
    };
}
pub(crate) use run_setters;

/// Makes a type with an `attempt` the way in which a run holds: an example of taking it back, the type, and its error.
macro_rules! run_mode {
    ($(#[$example:meta])+ $Run:ident, $Error:ident) => {
        impl $crate::engine::guard::lease::handle::Sealed for $Run {}
        impl $crate::engine::guard::lease::handle::Typed for $Run {}
        impl $crate::engine::guard::lease::handle::SingleName for $Run {
            type Fence = leaselock_fence::Fence;
        }

        impl $crate::engine::guard::lease::Lease<$Run> {
            /// Gives the run back as if it had never begun: it counts as no attempt. For a caller that did none of the work.
            ///
            /// # Waiting
            /// One request, within the request timeout. Without a reply it is repeated in the background.
            ///
            /// # Cancel safety
            /// When dropped, it goes on in the background.
            ///
            /// # Errors
            #[doc = concat!("[`", stringify!($Error), "::Store`]: nothing is held. Until the store replies, callers find a run that")]
            /// holds the name or has crashed.
            ///
            $(#[$example])+
            pub async fn cancel(self) -> Result<(), $Error> {
                let name = self.name().clone();
                let cancelled = self.undo().await;
                cancelled.map_err(|source| $Error::Store { name, source })
            }
        }

        $crate::engine::guard::lease::both_tell! { $Run {
            /// Returns the number of the run, from 1. With more than 1, an earlier run failed or crashed, and may have
            /// done the work in part.
            pub fn attempt(&self) -> u32 {
                self.known().attempt
            }
        } }
    };
}
pub(crate) use run_mode;
