//! Ticks of a schedule: each is run by one of the hosts that ask for it, or left out by a rule.

mod calls;
mod claim;
mod error;
mod handle;
mod kind;
mod run;
mod state;
#[cfg(all(test, feature = "embedded"))]
mod tests;
mod tick;

#[doc(hidden)]
pub use self::claim::TickCalls;
pub use self::error::CronError;
pub use self::handle::Cron;
#[doc(hidden)]
pub use self::handle::{LATE_MAX, Serving};
pub(crate) use self::kind::CRON;
pub use self::run::CronRun;
pub use self::state::{Claim, CronState, Overlap, TickState};
