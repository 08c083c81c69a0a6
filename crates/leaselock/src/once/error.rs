//! Why a caller got no result.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::Fence;

use super::state::RESULT_MAX;
use crate::base::error::{AcquireError, ErrorFacts, Lost, StoreError, noun_error};

noun_error! {
    /// Why a [`Once`](crate::once::Once) gave no result. Nothing is held after any of them.
    #[derive(Debug, Clone, thiserror::Error)]
    pub enum OnceError of name: "The key.", through AcquireError {
        /// The store did not reply to a read, to [`forget`](crate::once::Once::forget) or to `cancel` of a
        /// [run](crate::once::OnceRun), or refused. Nothing is held.
        /// After `forget` the record may be gone. After `cancel` the client repeats the request in the background; until it
        /// succeeds, callers find a run that holds the name or has crashed.
        #[error("`{name}`: {source}")]
        Store leaves Record,

        /// The body did not begin: the name was held to the end of the wait, or the store or an option was in the way.
        #[error(transparent)]
        Acquire(#[from] AcquireError),

        /// The key was used for another request. The body did not begin, and nothing of the other request is told.
        #[error("`{name}` was used for another request: the fingerprints differ")]
        Mismatch {},

        /// An earlier run did not end, and [`OnCrash::Refuse`](crate::options::OnCrash) allows no other. The body did not begin.
        /// Whether the work was done is not known: find out, and then [`forget`](crate::once::Once::forget) the run.
        #[error("`{name}`: run {attempt} crashed, and whether its work was done is not known")]
        Crashed {
            /// The fencing token of the run that crashed.
            fence: Fence,
            /// Its number, from 1.
            attempt: u32,
        },

        /// As many runs failed or crashed as [`max_attempts`](crate::once::Once::max_attempts) allows. The body did not begin.
        #[error(
            "`{name}` was given up after {attempts} attempt{}: {}",
            if *attempts == 1 { "" } else { "s" },
            if message.is_empty() { "each of them crashed" } else { message.as_str() }
        )]
        GivenUp {
            /// How many runs have begun.
            attempts: u32,
            /// The text of the latest failure; empty when every run crashed. Another client wrote it: show it, do not trust it.
            message: String,
        },

        /// The body returned an error: in this call, in the run that this call has waited for, or in an earlier one.
        #[error("`{name}`: run {attempt} failed: {message}")]
        Failed {
            /// The fencing token of the run.
            fence: Fence,
            /// Its number, from 1.
            attempt: u32,
            /// The text of the error. Another client may have written it: show it, do not trust it.
            message: String,
            /// When another run may begin; `None`: none may, because the failure is kept.
            retry_in: Option<Duration>,
            /// The error itself, to match or to downcast, if the body ran in this call; all other callers have its text.
            source: Option<Arc<Box<dyn Error + Send + Sync>>>,
        } => may_pass,

        /// The body returned more than 1 MiB. The work is done, and its result was not kept.
        /// No other run begins: later callers get [`Failed`](OnceError::Failed), which says so.
        #[error("`{name}`: {}", too_large(*.size))]
        TooLarge {
            /// How many bytes the result has.
            size: usize,
        },

        /// The work is done, in this call or before, and its result is no JSON of the type that
        /// [`run_json`](crate::once::Once::run_json) was asked for: it was of another type, or could not be written.
        #[error("`{name}`: the work is done, and its result is not of the type that was asked for: {message}")]
        Unreadable {
            /// What is wrong with it.
            message: String,
        },

        /// The run lost its lease, and the body was stopped where it stood. The run counts as crashed.
        #[error(transparent)]
        Lost(#[from] Lost),

        /// The body ended too late: the lease was over, and another client was granted the name. Its result was not stored.
        #[error(
            "`{name}`: the run ended too late, and its result was not stored: {}",
            fence.map_or("its lease was over".to_owned(), |it| format!("another run has begun since, under {it}"))
        )]
        Stale {
            /// The fencing token of the run that has begun since; `None` when another lock of the name was held, or the record
            /// was gone.
            fence: Option<Fence>,
        },

        /// A run holds the name, so it was not forgotten.
        #[error("`{name}`: a run is in progress (fence {fence})")]
        Running {
            /// The fencing token of the run.
            fence: Fence,
        } => ErrorFacts::busy,

        /// The body ran to its end, and the store has not confirmed its result. The result may be stored.
        /// If it is not, later callers find a run that crashed.
        #[error("`{name}` has run, and whether its result is stored is not known: {source}")]
        NotStored {
            /// The store's error.
            source: StoreError,
        } leaves Record,

        /// The body ran to its end and its result is stored, and too few replicas have confirmed it in time.
        /// Callers get the result, unless the server is lost before its replicas have it: then the work is done again, or
        /// callers find a run that crashed.
        #[error("`{name}` has run and its result is stored, but a failover may lose it: {source}")]
        NotReplicated {
            /// How many replicas have it, or why that is not known.
            source: StoreError,
        },
    }
}

/// A failure that is not kept is followed by another run. What a store said to the body was no reply to this work.
fn may_pass<'a>(mut facts: ErrorFacts<'a>, error: &OnceError) -> ErrorFacts<'a> {
    let kept = matches!(error, OnceError::Failed { retry_in: None, .. });
    (facts.store, facts.may_pass) = (None, !kept);
    facts
}

/// What later callers are told of a result that was not kept.
pub(super) fn too_large(size: usize) -> String {
    format!("the result of {size} bytes is larger than {RESULT_MAX} and was not kept")
}
