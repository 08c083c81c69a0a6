//! The mutex: one holder at a time.

mod kind;
mod lock;

pub(crate) use self::kind::MUTEX;
pub use self::lock::Mutex;
