//! Ticks of a schedule, what becomes of them, and what the store knows of them, as values.

use std::time::{Duration, SystemTime};

use crate::base::error::InvalidInput;
use crate::base::span::utc;
use crate::engine::guard::lease::Lease;
use crate::script::{Answer, Malformed};

/// Above it a script's numbers would skip microseconds: in the year 2255.
const TICK_MAX_US: u64 = 1 << 53;

/// A tick in microseconds since 1970, rounded down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tick(pub(super) u64);

impl Tick {
    pub(super) fn new(time: SystemTime) -> Result<Self, InvalidInput> {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).ok();
        let us = since.and_then(|since| u64::try_from(since.as_micros()).ok());
        let us = us.filter(|us| (1..=TICK_MAX_US).contains(us));
        let right = "a tick is a time from 1970 to 2255, after the first microsecond";
        us.map(Tick).ok_or_else(|| InvalidInput::new(right))
    }

    pub(super) fn time(self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_micros(self.0)
    }

    /// In UTC, to the second.
    pub(super) fn in_words(self) -> String {
        utc(self.0 / 1_000_000)
    }

    /// Reads it from a reply; `None` for 0, which stands for none.
    pub(super) fn from_answer(answer: &Answer, at: usize) -> Result<Option<Self>, Malformed> {
        let us = answer.number(at)?;
        if us > TICK_MAX_US {
            return Err(Malformed);
        }
        Ok((us > 0).then_some(Tick(us)))
    }
}

/// The run of a tick, as its [`Lease`] has it: it holds the name, and no other run begins meanwhile.
///
/// `finish` says that the work is done. Dropping it gives the name back: the run then did not finish, and
/// counts as crashed.
#[derive(Debug, Clone)]
pub struct CronRun {
    pub(super) attempt: u32,
    pub(super) tick: Tick,
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_in_words_has_the_day_of_the_calendar_also_around_leap_days() {
        for (seconds, words) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951868799, "2000-02-29 23:59:59 UTC"),
            (1795746600, "2026-11-27 02:30:00 UTC"),
            (1798761599, "2026-12-31 23:59:59 UTC"),
            (1798761600, "2027-01-01 00:00:00 UTC"),
            (4107499200, "2100-02-28 12:00:00 UTC"),
            (4107542400, "2100-03-01 00:00:00 UTC"),
            (13574563201, "2400-02-29 00:00:01 UTC"),
        ] {
            assert_eq!(Tick(seconds * 1_000_000).in_words(), words);
        }
    }
}
