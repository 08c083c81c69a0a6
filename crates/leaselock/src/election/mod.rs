//! Leader election: who holds a mutex leads, and all others can see it.

mod calls;
mod handle;
pub(crate) mod mode;
mod observer;
#[cfg(all(test, feature = "embedded"))]
mod tests;

pub(crate) use self::calls::LEADERSHIP;
pub use self::calls::Proclamation;
pub use self::handle::Election;
pub use self::observer::LeaderObserver;
