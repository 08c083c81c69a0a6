//! The multilock: several mutexes under one lease.

mod acquire;
mod lease;
mod lock;
mod loss;
mod view;

pub use self::lease::MultiLease;
pub use self::lock::MultiLock;
pub use self::loss::MultiLossWatch;
pub use self::view::MultiLeaseView;
