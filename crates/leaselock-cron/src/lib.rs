//! Schedules that several hosts share: cron expressions in time zones, each tick of which one host runs.
//!
//! A [`Schedule`] says when. [`Schedule::runs`] gives those of its ticks that this host runs: of all hosts that ask under
//! one name, one gets each tick, by [`Cron::claim`](leaselock::cron::Cron::claim). Which host, and what became of it, is on the
//! store; nothing is set up.
//!
//! # Examples
//! ```
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let client = leaselock::Client::open("mem:")?;
//! use leaselock_cron::Schedule;
//!
//! let every_second: Schedule = "* * * * * *".parse()?;
//! let mut runs = every_second.runs(client.cron("report"));
//! let run = runs.next().await?; // the tick is ours; stop when `run.lost()` resolves
//! println!("due at {:?}", run.tick());
//! run.finish().await?;
//! # Ok(()) }
//! ```

mod claimed_tick;
mod plan;
mod schedule;
mod schedule_error;
mod schedule_fields;
#[cfg(test)]
mod schedule_tests;
mod scheduled_runs;
mod service;
#[cfg(test)]
mod service_tests;

pub use crate::plan::CatchUp;
pub use crate::schedule::Schedule;
pub use crate::schedule_error::ScheduleError;
pub use crate::scheduled_runs::ScheduledRuns;
pub use crate::service::TickView;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
