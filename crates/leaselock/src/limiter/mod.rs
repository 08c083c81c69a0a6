//! The rate limiter: so many permits in a period, for all clients together.

mod band;
mod calls;
mod error;
mod handle;
#[cfg(all(test, feature = "embedded"))]
mod late_tests;
mod reservation;
#[cfg(all(test, feature = "embedded"))]
mod tests;

pub use self::band::Band;
pub(crate) use self::calls::SCRIPTS;
pub use self::calls::Taken;
pub use self::error::LimiterError;
pub use self::handle::{Limiter, RateDecision};
