//! Ticks of a schedule: each is run by one of the hosts that ask for it, or left out by a rule.

mod calls;
mod error;
mod handle;
mod run;
mod state;
#[cfg(all(test, feature = "embedded"))]
mod tests;

pub(crate) use self::calls::CRON;
pub use self::error::CronError;
pub use self::handle::Cron;
pub use self::state::{Claim, CronRun, CronState, Overlap, TickState};
#[doc(hidden)]
pub use self::{handle::LATE_MAX, run::TickCalls};
