//! A command that waits for a lock waits for its store too.
//!
//! The library gives up a store that never replied after two seconds, because a service wants to know early. A command
//! has only its caller to tell, who would start it again: on a busy machine a reply takes longer than that, and a server
//! that is being restarted is back soon.

use std::time::Duration;

use leaselock::error::{RequestError, Vote};
use leaselock::once::OnceError;
use leaselock::satellite::rounded;
use leaselock::{AcquireError, ErrorKind, StoreError, Wait};

use crate::failure::Failure;
use crate::{boottime, progress};

/// A store that never replied is given up after this time, when neither -n nor -w was given.
const GIVE_UP_AFTER: Duration = Duration::from_secs(10);
/// Before the next try. With less time left there is none: it could say no more than the one before it.
const PAUSE: Duration = Duration::from_millis(100);

/// A wait that begins before the store has replied.
pub(crate) struct FirstContact {
    wait: Wait,
    began: u64,
}

impl FirstContact {
    /// Begins now.
    pub(crate) fn begin(wait: Wait) -> FirstContact {
        FirstContact {
            wait,
            began: boottime::now(),
        }
    }

    /// Tries again while the store is not there, with what is left of the wait. `again` is told before the second try.
    ///
    /// Each try is a call of its own, and its requests have tokens of their own. If a request of an earlier try is
    /// granted after all, no caller gets that lease: the library releases it in the background, and until then the
    /// next try waits behind it. So there are never two holders, as with two commands one after the other.
    pub(crate) async fn ask<T, E: Cause>(
        &self,
        attempt: impl AsyncFn(Wait) -> Result<T, E>,
        again: impl FnOnce(&StoreError),
    ) -> Result<T, E> {
        let (mut wait, mut again) = (self.wait, Some(again));
        loop {
            let error = match attempt(wait).await {
                Err(error) if self.awaits_store(&error) => error,
                ended => return ended,
            };
            let limit = match self.wait {
                Wait::Timeout(limit) => limit,
                _ => GIVE_UP_AFTER,
            };
            let left = limit.saturating_sub(self.age());
            if left > PAUSE
                && let (Some(again), Some(source)) = (again.take(), error.cause())
            {
                again(source);
            }
            tokio::time::sleep(left.min(PAUSE)).await;
            if left <= PAUSE {
                return Err(error);
            }
            if let Wait::Timeout(_) = self.wait {
                wait = Wait::Timeout(left - PAUSE);
            }
        }
    }

    /// The failure of a wait that ended so: it says for how long the store was tried.
    pub(crate) fn failed(&self, error: &impl Cause, failure: Failure) -> Failure {
        match self.awaits_store(error) {
            true => failure.given_up_after(&rounded(self.age())),
            false => failure,
        }
    }

    fn age(&self) -> Duration {
        Duration::from_nanos(boottime::now().saturating_sub(self.began))
    }

    /// True if the caller waits, and the store is not there yet.
    fn awaits_store(&self, error: &impl Cause) -> bool {
        self.wait != Wait::Never && error.cause().is_some_and(is_absent)
    }
}

/// The error of the store, or of a majority of several, that ended a wait.
pub(crate) trait Cause {
    fn cause(&self) -> Option<&StoreError>;
}

impl Cause for AcquireError {
    fn cause(&self) -> Option<&StoreError> {
        match self {
            AcquireError::Store { source, .. }
            | AcquireError::Unknown { source, .. }
            | AcquireError::NoQuorum { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl Cause for OnceError {
    fn cause(&self) -> Option<&StoreError> {
        match self {
            OnceError::Acquire(error) => error.cause(),
            OnceError::Store { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl Cause for RequestError {
    fn cause(&self) -> Option<&StoreError> {
        match self {
            RequestError::Store(source) => Some(source),
            _ => None,
        }
    }
}

/// Neither the store nor a majority of several has replied, or it loads its data after a restart.
fn is_absent(error: &StoreError) -> bool {
    let votes = error.votes();
    let silent = votes.iter().filter(|one| one.vote == Vote::Silent).count();
    let is_loading = error.kind() == ErrorKind::Loading;
    is_loading || progress::is_silence(error) || silent > votes.len() / 2
}
