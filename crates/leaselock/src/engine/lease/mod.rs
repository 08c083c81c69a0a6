//! The lease: the right to hold a name for a bounded time.

pub(crate) mod deadlines;
pub(crate) mod handle;
pub(crate) mod loss;
pub(crate) mod loss_signal;
pub(crate) mod record;
mod release;
pub(crate) mod state;
mod view;

pub(crate) use self::handle::PassOn;
pub use self::handle::{Lease, LeaseState};
pub(crate) use self::release::release;
pub use self::view::LeaseView;
