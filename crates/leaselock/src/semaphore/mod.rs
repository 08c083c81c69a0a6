//! The semaphore: a limited number of permits.

mod kind;
pub(crate) mod lock;
mod resize;

pub(crate) use self::kind::PERMITS;
pub use crate::client::inspection::PermitCount;
