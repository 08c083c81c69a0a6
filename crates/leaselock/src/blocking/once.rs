//! Work that runs once, without async.

use std::fmt;
use std::time::Duration;

use leaselock_fence::{Fence, Name};

use super::wait::{shown_name, wait};
use crate::engine::values::request::{Wait, Waiting};
use crate::once::{OnCrash, OnceError, OnceResult, OnceState, OnceView};

/// A [`Once`](crate::Once) whose calls block the calling thread.
#[derive(Debug, Clone)]
#[must_use = "work does nothing until it is run"]
pub struct Once {
    pub(super) client: crate::Client,
    pub(super) once: crate::Once,
}

/// What a caller begins with, as [`crate::OnceStart`].
#[derive(Debug)]
pub enum OnceStart {
    /// The caller does the work, and says how it ended by [`finish`](OnceRun::finish).
    Run(OnceRun),
    /// The work is done.
    Done(OnceResult),
}

impl Once {
    setting! { once, "Once":
        ttl(ttl: Duration);
        wait(wait: Wait);
        max_hold(longest: Duration);
        on_wait(callback: impl Fn(&Waiting) + Send + Sync + 'static);
        kept(kept: Duration);
        fingerprint(request: impl AsRef<[u8]>);
        attempts(most: u32);
        on_crash(then: OnCrash);
        pause(pause: Duration);
        keep_failures(keep: bool);
        min_replicas(count: u32, timeout: Duration);
        fsynced(here: bool, replicas: u32, timeout: Duration);
    }

    fn about(&self) -> Name {
        shown_name(&self.once.named.name)
    }

    validating!(once, "Once");

    waiting! { once, "Once":
        /// [`OnceError`]; what is known of the latest run is not changed.
        state() -> Result<OnceState, OnceError>;
        /// [`OnceError::Running`] when a run holds the name; nothing was changed.
        forget() -> Result<bool, OnceError>;
    }

    /// As [`Once::begin`](crate::Once::begin).
    ///
    /// # Errors
    /// [`OnceError`]: this caller does not run.
    pub fn begin(&self) -> Result<OnceStart, OnceError> {
        let start = wait(&self.client, self.about(), self.once.begin())?;
        Ok(match start {
            crate::OnceStart::Done(result) => OnceStart::Done(result),
            crate::OnceStart::Run(run) => OnceStart::Run(OnceRun {
                client: self.client.clone(),
                run,
            }),
        })
    }

    /// As [`Once::run`](crate::Once::run), but that a thread cannot be stopped from outside: a long body asks
    /// [`is_held`](crate::LeaseView::is_held) of its [`lease`](OnceView::lease) from time to time.
    ///
    /// # Errors
    /// [`OnceError`]: every variant says whether the body ran, and what later callers find.
    pub fn run<T, E>(
        &self,
        body: impl FnOnce(OnceView) -> Result<T, E>,
    ) -> Result<OnceResult, OnceError>
    where
        T: Into<Vec<u8>>,
        E: fmt::Display,
    {
        match self.begin()? {
            OnceStart::Done(result) => Ok(result),
            OnceStart::Run(run) => {
                let ended = body(run.run.view());
                run.finish(ended.map(Into::into).map_err(|error| error.to_string()))
            }
        }
    }
}

/// A [`OnceRun`](crate::OnceRun) whose calls block the calling thread. Dropping it gives the name back without a result:
/// the run then counts as crashed.
#[derive(Debug)]
#[must_use = "a run that is dropped counts as crashed"]
pub struct OnceRun {
    client: crate::Client,
    run: crate::OnceRun,
}

impl OnceRun {
    fn about(&self) -> Name {
        self.run.name().clone()
    }

    forwarded! { run:
        /// As [`OnceRun::view`](crate::OnceRun::view).
        view -> OnceView;
        /// Returns the number of the run, from 1.
        attempt -> u32;
        /// Returns true if you may act now.
        is_held -> bool;
    }

    /// Returns the fencing token of the run.
    pub fn fence(&self) -> Fence {
        self.run.view().fence()
    }

    /// As [`OnceRun::finish`](crate::OnceRun::finish).
    ///
    /// # Errors
    /// [`OnceError`]: every variant says what later callers find.
    pub fn finish(self, outcome: Result<Vec<u8>, String>) -> Result<OnceResult, OnceError> {
        wait(&self.client, self.about(), self.run.finish(outcome))
    }

    /// As [`OnceRun::cancel`](crate::OnceRun::cancel).
    ///
    /// # Errors
    /// [`OnceError::Store`]: nothing is held.
    pub fn cancel(self) -> Result<(), OnceError> {
        wait(&self.client, self.about(), self.run.cancel())
    }
}
