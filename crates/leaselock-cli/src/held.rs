//! What `run` holds: the lease of one name, or of several. What `once` and `cron` hold: a run.

use std::time::Duration;

use jiff::Timestamp;
use leaselock::clock::Moment;
use leaselock::cron::CronRun;
use leaselock::multilock::MultiLease;
use leaselock::once::OnceRun;
use leaselock::{ExtendError, Fence, Lease, Lost, ReleaseError};

pub(crate) enum Held {
    One(Lease),
    Several(MultiLease),
    Once(OnceRun),
    Cron(CronRun),
}

impl Held {
    /// One lease for each name.
    fn leases(&self) -> &[Lease] {
        match self {
            Held::One(lease) => std::slice::from_ref(lease),
            Held::Several(lease) => lease.leases(),
            Held::Once(run) => std::slice::from_ref(&**run),
            Held::Cron(run) => std::slice::from_ref(&**run),
        }
    }

    /// The lease that ends first.
    pub(crate) fn first_to_end(&self) -> Option<&Lease> {
        self.leases().iter().min_by_key(|lease| lease.deadline())
    }

    /// The fencing token of the first name.
    pub(crate) fn fence(&self) -> Option<u64> {
        self.leases().first()?.fence().map(Fence::get)
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
        let shown = self.leases().iter().filter_map(Lease::sequencer);
        let lines: Vec<String> = shown.map(|shown| shown.to_string()).collect();
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

    pub(crate) fn ttl(&self) -> Duration {
        self.leases().first().map(Lease::ttl).unwrap_or_default()
    }

    /// Until the first of the leases ends.
    pub(crate) fn remaining(&self) -> Duration {
        self.first_to_end()
            .map(Lease::remaining)
            .unwrap_or_default()
    }

    pub(crate) async fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        match self {
            Held::One(lease) => lease.extend(ttl).await,
            Held::Several(lease) => lease.extend(ttl).await,
            Held::Once(run) => run.extend(ttl).await,
            Held::Cron(run) => run.extend(ttl).await,
        }
    }

    /// Calls the hook with the earliest deadline, at once and whenever it changes.
    pub(crate) fn on_deadline(&self, hook: impl Fn(Moment) + Send + Sync + 'static) {
        match self {
            Held::One(lease) => lease.on_deadline(hook),
            Held::Several(lease) => lease.on_deadline(hook),
            Held::Once(run) => run.on_deadline(hook),
            Held::Cron(run) => run.on_deadline(hook),
        }
    }

    /// Completes when the first of the leases ends.
    pub(crate) fn lost(&self) -> impl Future<Output = Lost> + use<> {
        let one = match self {
            Held::One(lease) => Ok(lease.lost()),
            Held::Several(lease) => Err(lease.lost()),
            Held::Once(run) => Ok(run.lost()),
            Held::Cron(run) => Ok(run.lost()),
        };
        async {
            match one {
                Ok(lost) => lost.await,
                Err(lost) => lost.await,
            }
        }
    }

    /// What has ended, if something has.
    pub(crate) fn loss(&self) -> Option<Lost> {
        let mut leases = self.leases().iter();
        leases.find_map(|lease| lease.lost().check().err())
    }

    /// The error of each name that was not confirmed as released.
    pub(crate) async fn release(self) -> Result<(), Vec<ReleaseError>> {
        match self {
            Held::One(lease) => lease.release().await.map_err(|error| vec![error]),
            Held::Several(lease) => {
                let released = lease.release().await;
                released.map_err(|error| error.errors().to_vec())
            }
            // The job of a run that is given back without a result was never started.
            Held::Once(run) => {
                run.cancel().await.ok(); // repeated in the background
                Ok(())
            }
            Held::Cron(run) => {
                run.cancel().await.ok(); // repeated in the background
                Ok(())
            }
        }
    }
}
