//! Ticks of a schedule without async.

use std::time::{Duration, SystemTime};

use leaselock_fence::{Fence, Name};

use super::wait::{shown_name, wait};
use crate::cron::{Claim, CronError, CronState, Overlap};
use crate::engine::guard::lease::LeaseView;
use crate::engine::services::lease::loss::LossWatch;

/// A [`Cron`](crate::Cron) whose calls block the calling thread. It claims ticks that the program works out itself.
#[derive(Debug, Clone)]
#[must_use = "a schedule does nothing until a tick is claimed"]
pub struct Cron {
    pub(super) client: crate::Client,
    pub(super) cron: crate::Cron,
}

impl Cron {
    setting! { cron, "Cron":
        ttl(ttl: Duration);
        max_hold(longest: Duration);
        min_replicas(count: u32, timeout: Duration);
        late(late: Duration);
        again(again: bool);
        overlap(overlap: Overlap);
    }

    fn about(&self) -> Name {
        shown_name(&self.cron.named.name)
    }

    validating!(cron, "Cron");

    waiting! { cron, "Cron":
        /// [`CronError`]; nothing was changed.
        state() -> Result<CronState, CronError>;
    }

    /// As [`Cron::claim`](crate::Cron::claim).
    ///
    /// # Errors
    /// [`CronError::Acquire`]: the tick was not claimed.
    pub fn claim(&self, tick: SystemTime) -> Result<Claim<CronRun>, CronError> {
        let claim = wait(&self.client, self.about(), self.cron.claim(tick))?;
        Ok(claim.map(|run| CronRun {
            client: self.client.clone(),
            run,
        }))
    }
}

/// A [`CronRun`](crate::CronRun) whose calls block the calling thread. Dropping it gives the name back in the background:
/// the run then did not finish, and counts as crashed.
#[derive(Debug)]
#[must_use = "a run that is dropped did not finish"]
pub struct CronRun {
    client: crate::Client,
    run: crate::CronRun,
}

impl CronRun {
    fn about(&self) -> Name {
        self.run.name().clone()
    }

    forwarded! { run:
        /// Returns the name.
        name -> &Name;
        /// Returns the tick: when the run was due, to the microsecond.
        tick -> SystemTime;
        /// Returns the fencing token of the run, larger than that of every earlier run.
        fence -> Fence;
        /// Returns the number of the run of this tick, from 1.
        attempt -> u32;
        /// Returns true if you may act now.
        is_held -> bool;
        /// Returns a value with which other threads check whether the run has lost its lease.
        lost -> LossWatch;
        /// Returns a view of the lease for other threads.
        view -> LeaseView;
    }

    /// As [`CronRun::finish`](crate::CronRun::finish).
    ///
    /// # Errors
    /// [`CronError::Stale`] and [`CronError::NotConfirmed`] say what the record is then. Nothing is held.
    pub fn finish(self) -> Result<(), CronError> {
        wait(&self.client, self.about(), self.run.finish())
    }

    /// As [`CronRun::cancel`](crate::CronRun::cancel).
    ///
    /// # Errors
    /// [`CronError::Store`]: nothing is held.
    pub fn cancel(self) -> Result<(), CronError> {
        wait(&self.client, self.about(), self.run.cancel())
    }
}
