//! Leader election: who holds a mutex leads, and all others can see it.

mod calls;
mod error;
mod handle;
mod kind;
mod leader;
mod leadership;
mod observer;
mod proclamation;
#[cfg(all(test, feature = "embedded"))]
mod tests;

pub use self::error::ProclaimError;
pub use self::handle::Election;
pub(crate) use self::kind::LEADERSHIP;
pub use self::leader::Leader;
pub use self::leadership::Leadership;
pub use self::observer::LeaderObserver;
