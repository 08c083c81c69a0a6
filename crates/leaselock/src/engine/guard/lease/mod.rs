//! The lease: the right to hold a name for a bounded time.

mod extend;
pub(crate) mod handle;
mod read;
mod release;
mod request_span;

pub use self::handle::Lease;
pub(crate) use self::handle::PassOn;
pub(crate) use self::read::both_tell;
pub use self::read::{LeaseState, LeaseView};
pub(crate) use self::release::release;
