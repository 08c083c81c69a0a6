//! What became of a run, as values.

use std::fmt;
use std::time::Duration;

use leaselock_fence::Fence;

/// The largest result in bytes.
pub(super) const RESULT_MAX: usize = 1 << 20;

/// The result of a run: bytes, or a value of [`run_json`](crate::once::Once::run_json). `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OnceResult<T = Vec<u8>> {
    /// What the body returned. Every caller gets the same.
    pub value: T,
    /// True if the body ran in this call; false if the result is that of an earlier or another run.
    pub ran_here: bool,
    /// The fencing token of the run.
    pub fence: Fence,
    /// The number of the run, from 1: how many runs have begun.
    pub attempt: u32,
}

impl<T> fmt::Debug for OnceResult<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceResult")
            .field("ran_here", &self.ran_here)
            .field("fence", &self.fence)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// What is known of the latest run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnceState {
    /// No run has begun, or its record is not kept any more.
    Absent,
    /// A run holds the name.
    Running {
        /// Its fencing token.
        fence: Fence,
        /// Its number, from 1.
        attempt: u32,
    },
    /// A run has ended with this result.
    Done(OnceResult),
    /// The run returned an error.
    Failed {
        /// Its fencing token.
        fence: Fence,
        /// Its number, from 1.
        attempt: u32,
        /// The text of the error. Another client wrote it: show it, do not trust it.
        message: String,
        /// When another run may begin; `None`: none may, because the failure is kept.
        retry_in: Option<Duration>,
    },
    /// The run did not end, and does not hold the name any more.
    Crashed {
        /// Its fencing token.
        fence: Fence,
        /// Its number, from 1.
        attempt: u32,
    },
}
