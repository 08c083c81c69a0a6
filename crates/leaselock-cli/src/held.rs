//! What `run` holds: the lease of one name, or of several. What `once` and `cron` hold: a run.

use std::time::{Duration, UNIX_EPOCH};

use jiff::Timestamp;
use leaselock::clock::Moment;
use leaselock::cron::CronRun;
use leaselock::lease::{Leader, Permits, Several, Shared};
use leaselock::once::OnceRun;
use serde_json::{Value, json};

use leaselock::{Fence, Lease, LeaseError, LeaseView, LossWatch, Lost, ReleaseError, Sequencer};

pub(crate) enum Held {
    Exclusive(Lease),
    Several(Lease<Several>),
    Shared(Lease<Shared>),
    Permits(Lease<Permits>),
    Leader(Lease<Leader>),
    Once(Lease<OnceRun>),
    Cron(Lease<CronRun>),
}

/// Calls the same method of whichever lease it is.
macro_rules! on_each {
    ($held:expr, $lease:ident => $called:expr) => {
        match $held {
            Held::Exclusive($lease) => $called,
            Held::Several($lease) => $called,
            Held::Shared($lease) => $called,
            Held::Permits($lease) => $called,
            Held::Leader($lease) => $called,
            Held::Once($lease) => $called,
            Held::Cron($lease) => $called,
        }
    };
}

impl Held {
    /// The lease that ends first.
    pub(crate) fn first_to_end(&self) -> LeaseView {
        if let Held::Several(lease) = self {
            let first = lease.leases().iter().min_by_key(|one| one.deadline());
            if let Some(first) = first {
                return first.view().into();
            }
        }
        self.view()
    }

    /// The lease as others see it, of all names.
    pub(crate) fn view(&self) -> LeaseView {
        on_each!(self, lease => lease.view().into())
    }

    /// The fencing token of the first name.
    pub(crate) fn fence(&self) -> Option<u64> {
        self.view().fence().map(Fence::get)
    }

    /// The fencing token of each of several names: a line for each, which names cannot contain.
    pub(crate) fn fences(&self) -> Option<String> {
        let Held::Several(lease) = self else {
            return None;
        };
        let line = |(name, fence): (_, Option<Fence>)| Some(format!("{} {name}", fence?));
        let lines: Vec<String> = lease.fences().filter_map(line).collect();
        Some(lines.join("\n"))
    }

    /// What the job shows to the resource of each name: a line for each. `None` without fencing.
    pub(crate) fn sequencers(&self) -> Option<String> {
        let shown: Vec<Sequencer> = match self {
            Held::Several(lease) => lease.sequencers().collect(),
            one => one.view().sequencer().into_iter().collect(),
        };
        let lines: Vec<String> = shown.iter().map(ToString::to_string).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// When the job was due, as RFC 3339 in UTC; `None` without a schedule.
    pub(crate) fn tick(&self) -> Option<String> {
        match self {
            Held::Cron(run) => Timestamp::try_from(run.tick())
                .ok()
                .map(|tick| tick.to_string()),
            _ => None,
        }
    }

    /// The same in milliseconds since 1970.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        let Held::Cron(run) = self else { return None };
        let since = run.tick().duration_since(UNIX_EPOCH).ok()?;
        u64::try_from(since.as_millis()).ok()
    }

    /// Each name with its fence and its sequencer, as objects.
    pub(crate) fn each(&self) -> Vec<Value> {
        let object = |lease: LeaseView| {
            json!({
                "name": lease.name(),
                "fence": lease.fence(),
                "sequencer": lease.sequencer().map(|it| it.to_string()),
            })
        };
        match self {
            Held::Several(lease) => {
                let views = lease.leases().iter().map(|one| one.view().into());
                views.map(object).collect()
            }
            one => vec![object(one.view())],
        }
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.view().ttl()
    }

    /// Until the first of the leases ends.
    pub(crate) fn remaining(&self) -> Duration {
        self.view().remaining()
    }

    pub(crate) async fn extend(&self, ttl: Duration) -> Result<(), LeaseError> {
        on_each!(self, lease => lease.extend(ttl).await)
    }

    /// Calls the hook with the earliest deadline, at once and whenever it changes.
    pub(crate) fn on_deadline(&self, hook: impl Fn(Moment) + Send + Sync + 'static) {
        on_each!(self, lease => lease.on_deadline(hook))
    }

    /// Completes when the first of the leases ends.
    pub(crate) fn lost(&self) -> LossWatch {
        self.view().lost()
    }

    /// What has ended, if something has.
    pub(crate) fn loss(&self) -> Option<Lost> {
        self.view().check().err()
    }

    /// The error of each name that was not confirmed as released.
    pub(crate) async fn release(self) -> Result<(), Vec<ReleaseError>> {
        let released = match self {
            Held::Exclusive(lease) => lease.release().await,
            Held::Several(lease) => lease.release().await,
            Held::Shared(lease) => lease.release().await,
            Held::Permits(lease) => lease.release().await,
            Held::Leader(lease) => lease.release().await,
            // The job of a run that is given back without a result was never started.
            Held::Once(run) => {
                run.cancel().await.ok(); // repeated in the background
                Ok(())
            }
            Held::Cron(run) => {
                run.cancel().await.ok(); // repeated in the background
                Ok(())
            }
        };
        released.map_err(|error| match error {
            ReleaseError::Several(errors) => errors,
            error => vec![error],
        })
    }
}
