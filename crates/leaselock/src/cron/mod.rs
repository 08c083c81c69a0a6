//! Ticks of a schedule: each is run by one of the hosts that ask for it, or left out by a rule.

mod calls;
mod claim;
#[cfg(feature = "cron")]
mod claimed_tick;
mod error;
mod finish;
mod handle;
mod kind;
mod outcome;
#[cfg(feature = "cron")]
mod plan;
mod run;
#[cfg(feature = "cron")]
mod schedule;
#[cfg(feature = "cron")]
mod schedule_error;
#[cfg(feature = "cron")]
mod schedule_fields;
#[cfg(all(test, feature = "cron"))]
mod schedule_tests;
#[cfg(feature = "cron")]
mod scheduled_runs;
#[cfg(feature = "cron")]
mod service;
#[cfg(all(test, feature = "cron", feature = "embedded"))]
mod service_tests;
mod state;
#[cfg(all(test, feature = "embedded"))]
mod tests;
mod tick;

pub use self::error::CronError;
pub use self::handle::Cron;
pub(crate) use self::kind::CRON;
pub use self::outcome::Claim;
#[cfg(feature = "cron")]
pub use self::plan::CatchUp;
pub use self::run::CronRun;
#[cfg(feature = "cron")]
pub use self::schedule::Schedule;
#[cfg(feature = "cron")]
pub use self::schedule_error::ScheduleError;
#[cfg(feature = "cron")]
pub use self::scheduled_runs::ScheduledRuns;
#[cfg(feature = "cron")]
pub use self::service::CronView;
pub use self::state::{CronState, LatestTick, Overlap, TickState};
