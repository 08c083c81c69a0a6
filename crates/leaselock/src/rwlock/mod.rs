//! The read-write lock: many readers or one writer.

mod kind;
mod lock;

#[cfg(feature = "redis")]
pub(crate) use self::kind::READ;
pub use self::lock::{RwLock, SharedLease};
