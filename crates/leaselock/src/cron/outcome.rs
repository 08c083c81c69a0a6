//! What a claim comes to.

use std::time::Duration;

use super::run::CronRun;

/// What a caller that claims a tick is told.
#[derive(Debug)]
#[must_use = "a run that is dropped did not finish"]
#[non_exhaustive]
pub enum Claim {
    /// The tick is the caller's: it does the work, and says that by [`finish`](CronRun::finish).
    Run(CronRun),
    /// The tick is not due yet by the store's clock. Nothing was recorded.
    Early {
        /// How long until it is due.
        wait: Duration,
    },
    /// The tick is over for every host: it was run, it was left out, or it is older than the latest one that has begun.
    Over,
    /// A run of this tick has begun, and holds the name.
    ///
    /// It may still crash, so with [`OnCrash::Again`](crate::options::OnCrash::Again) the caller claims the tick again after `rest`. The same is told
    /// of a tick whose run crashed while another lock of the name is held.
    Running {
        /// How long the lease of the holder lasts unless it is renewed; zero if it has no end.
        rest: Duration,
    },
    /// The name is held by the run of another tick, or by another lock of the name. With
    /// [`Overlap::Skip`](crate::cron::Overlap) only: the tick is left out, for every host.
    Overlap {
        /// How long the lease of the holder lasts unless it is renewed; zero if it has no end.
        rest: Duration,
    },
    /// The tick was due longer ago than [`start_within`](crate::cron::Cron::start_within) allows, and is not run now. Nothing was recorded: a claim
    /// that allows more may still run it.
    Missed {
        /// How long ago it was due.
        late: Duration,
    },
}
