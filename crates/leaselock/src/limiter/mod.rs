//! The rate limiter: so many permits in a period, for all clients together.

mod calls;
mod handle;
#[cfg(all(test, feature = "embedded"))]
mod late_tests;
mod rate;
#[cfg(all(test, feature = "embedded"))]
mod tests;

pub use self::calls::LimiterError;
pub(crate) use self::calls::SCRIPTS;
#[doc(hidden)]
pub use self::calls::Taken;
pub use self::handle::{Limiter, RateDecision};
pub use self::rate::Rate;
