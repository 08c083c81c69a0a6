//! The lease: the right to hold a name for a bounded time.

mod change;
pub(crate) mod deadlines;
mod end;
pub(crate) mod handle;
pub(crate) mod loss;
pub(crate) mod loss_signal;
mod pass_on;
pub(crate) mod record;
mod release;
pub(crate) mod release_all;
mod sequencer;
pub(crate) mod state;
mod view;

pub use self::handle::Lease;
pub(crate) use self::pass_on::PassOn;
pub(crate) use self::release::release;
pub use self::view::{LeaseState, LeaseView};
