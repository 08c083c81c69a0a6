//! The multilock: several mutexes under one lease.

mod acquire;
mod lock;
mod mode;

pub use self::lock::MultiLock;
pub use self::mode::Several;
