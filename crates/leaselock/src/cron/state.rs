//! What becomes of ticks, and what the store knows of them, as values.

use std::time::{Duration, SystemTime};

use super::run::CronRun;
use crate::engine::guard::lease::Lease;

/// What a caller that claims a tick is told.
#[derive(Debug)]
#[must_use = "a run that is dropped did not finish"]
#[non_exhaustive]
pub enum Claim {
    /// The tick is the caller's: it does the work, and says that by `finish`.
    Run(Lease<CronRun>),
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

/// What becomes of a tick that is due while the name is held: by the run of an earlier tick, or by another lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Overlap {
    /// The tick is left out for all hosts, and the store remembers that. A host that is late does not run it.
    #[default]
    Skip,
    /// The claim waits until the name is free, until the tick may no longer [start](crate::cron::Cron::start_within).
    Wait,
}

/// What the store knows of the ticks of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CronState {
    /// When the latest tick that has begun was due; `None` if none has begun for 400 days.
    pub latest: Option<SystemTime>,
    /// What became of the run of that tick.
    pub state: Option<TickState>,
    /// How many runs of that tick have begun: more than one only with [`OnCrash::Again`](crate::options::OnCrash::Again).
    pub attempt: u32,
    /// The latest tick that was left out because the name was held. Every tick up to it is over, except the latest one
    /// that has begun.
    pub skipped: Option<SystemTime>,
    /// The time of the store's clock, by which a tick is due.
    pub now: SystemTime,
    /// The schedule as the latest service that ran a tick has it: how late its ticks may
    /// [begin](crate::cron::Cron::start_within), and its zone and expression, as in `Europe/Berlin 30 2 * * *`.
    ///
    /// `None` for ticks that were claimed without a schedule. Any client that may claim can write anything there.
    pub schedule: Option<(Duration, String)>,
}

/// What became of the run of a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TickState {
    /// The run holds the name.
    Running,
    /// The run has ended, with or without an error. The store does not keep which.
    Done,
    /// The run did not finish, and does not hold the name any more.
    Crashed,
}

impl CronState {
    /// Returns the latest tick that has begun or was left out. A service that starts catches up with ticks after it.
    ///
    /// `None` if no tick is known, as before the first start: then no tick of the past was missed.
    pub fn known_until(&self) -> Option<SystemTime> {
        self.latest.max(self.skipped)
    }
}
