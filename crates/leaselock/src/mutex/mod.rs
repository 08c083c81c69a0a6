//! The mutex: one holder at a time.

mod lock;
#[cfg(all(test, feature = "redis", feature = "embedded"))]
mod tests;

#[cfg(feature = "redis")]
pub(crate) use self::lock::SCRIPTS;
pub use self::lock::{Mutex, RunError, RunResult};
