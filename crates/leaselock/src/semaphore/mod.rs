//! The semaphore: a limited number of permits.

mod kind;
mod lock;
mod resize;

#[cfg(feature = "redis")]
pub(crate) use self::kind::PERMITS;
pub use self::lock::{Permit, Semaphore};
