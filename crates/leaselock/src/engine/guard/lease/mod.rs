//! The lease: the right to hold a name for a bounded time.

mod change;
mod end;
pub(crate) mod handle;
mod pass_on;
mod release;
pub(crate) mod release_all;
mod sequencer;
mod view;

pub use self::handle::Lease;
pub(crate) use self::pass_on::PassOn;
pub(crate) use self::release::release;
pub use self::view::{LeaseState, LeaseView};
