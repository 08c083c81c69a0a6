//! Work that runs at the ticks of a schedule: on one host of many, each tick at most once.

#[cfg(feature = "cron")]
mod plan;
#[cfg(feature = "cron")]
mod schedule;
#[cfg(feature = "cron")]
mod schedule_error;
#[cfg(feature = "cron")]
mod schedule_fields;
#[cfg(all(test, feature = "cron"))]
mod schedule_tests;

#[cfg(feature = "cron")]
pub use self::plan::CatchUp;
#[cfg(feature = "cron")]
pub use self::schedule::Schedule;
#[cfg(feature = "cron")]
pub use self::schedule_error::ScheduleError;
