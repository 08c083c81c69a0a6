//! The multilock: several mutexes under one lease.

mod acquire;
mod lock;
pub(crate) mod mode;

pub use self::lock::MultiLock;
