//! Real servers, child processes, a faulty proxy and a history checker for leaselock's tests.
//!
//! Nothing in here knows leaselock, the redis crate or an async runtime: everything runs on plain
//! threads, so a test's runtime may be starved or stopped and its tools still work.
//! Helpers panic with a sentence that says what went wrong, because a test has no use for an error.

pub mod aof;
pub mod child;
pub mod clock;
pub mod cluster;
pub mod history;
pub mod notes;
pub mod oracle;
pub mod process;
pub mod promtool;
pub mod proxy;
pub mod resp;
pub mod rounds;
pub mod sentinels;
pub mod server;
pub mod tls;

pub use child::Child;
pub use cluster::Cluster;
pub use history::Recorder;
pub use oracle::Oracle;
pub use process::wait_until;
pub use proxy::{Aim, Cut, Fault, Proxy, Way};
pub use resp::Value;
pub use rounds::rounds;
pub use sentinels::{Sentinels, Watched};
pub use server::Server;
/// A folder that goes away when its value is dropped.
pub use tempfile::{TempDir, tempdir};
