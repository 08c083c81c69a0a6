//! The semaphore: a limited number of permits.

mod kind;
pub(crate) mod lock;
mod permit;
mod resize;

pub(crate) use self::kind::PERMITS;
pub use self::permit::Permit;
