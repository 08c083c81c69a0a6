//! The lease: the right to hold a name for a bounded time.

mod change;
mod end;
mod extend;
pub(crate) mod handle;
pub(crate) mod mode;
mod pass_on;
mod read;
mod release;
mod release_all;
mod view;

pub use self::handle::Lease;
pub(crate) use self::pass_on::PassOn;
pub(crate) use self::release::release;
pub use self::view::{LeaseState, LeaseView};
