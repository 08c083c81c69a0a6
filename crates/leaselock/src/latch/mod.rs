//! The latch: parties arrive, and when all have arrived it opens, once and for all. A new primitive that holds nothing
//! begins as a copy of it.

mod calls;
mod error;
mod handle;

pub use self::calls::LatchState;
pub(crate) use self::calls::SCRIPTS;
pub use self::error::LatchError;
pub use self::handle::Latch;
