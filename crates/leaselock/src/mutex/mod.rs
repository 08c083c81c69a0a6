//! The mutex: one holder at a time. A new primitive that holds begins as a copy of it.

mod kind;
mod lock;

pub(crate) use self::kind::MUTEX;
pub use self::lock::Mutex;
