//! The lease: the right to hold a name for a bounded time.

pub(crate) mod deadlines;
pub(crate) mod handle;
pub(crate) mod loss;
pub(crate) mod loss_signal;
pub(crate) mod record;
pub(crate) mod state;

pub use self::handle::{Held, Lease, LeaseState};
pub(crate) use self::handle::{PassOn, release};
