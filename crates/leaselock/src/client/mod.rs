//! What a user builds: clients, options; inspection; leases without a process.

pub(crate) mod builder;
pub(crate) mod detached;
pub(crate) mod handle;
pub(crate) mod inspect;
pub(crate) mod inspection;
pub(crate) mod lease_handle;
mod list;
mod log;
pub(crate) mod look;
mod metrics;
pub(crate) mod named;
pub(crate) mod options;
pub(crate) mod run;
pub(crate) mod settings;
mod stats;
mod strict;
pub(crate) mod target;
mod verdicts;
pub(crate) mod views;

pub use self::handle::Client;
pub use self::named::CloseReport;
pub use self::stats::{Distribution, KindStats, Stats};
