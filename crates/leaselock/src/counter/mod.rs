//! The counter: each change counts exactly once, however often its request is sent.

mod calls;
mod driver;
mod error;
mod handle;
#[cfg(all(test, feature = "embedded"))]
mod tests;

pub(crate) use self::calls::SCRIPTS;
pub use self::error::{CounterError, UnknownChange};
pub use self::handle::Counter;
