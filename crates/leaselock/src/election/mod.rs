//! Leader election: who holds a mutex leads, and all others can see it.

mod calls;
mod handle;
mod kind;
pub(crate) mod mode;
mod observer;
mod proclaimer;
mod proclamation;
#[cfg(all(test, feature = "embedded"))]
mod tests;

pub use self::handle::Election;
pub(crate) use self::kind::LEADERSHIP;
pub use self::observer::LeaderObserver;
pub use self::proclamation::Proclamation;
