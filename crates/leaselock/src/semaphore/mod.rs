//! The semaphore: a limited number of permits.

mod kind;
mod lock;
mod permit;
mod resize;

pub(crate) use self::kind::PERMITS;
pub use self::lock::Semaphore;
pub use self::permit::Permit;
