//! The mutex: one holder at a time.

mod kind;
mod lock;
#[cfg(all(test, feature = "redis", feature = "embedded"))]
mod tests;

pub(crate) use self::kind::MUTEX;
pub use self::lock::Mutex;
