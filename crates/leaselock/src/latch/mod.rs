//! The latch: parties arrive, and when all have arrived it opens, once and for all.

mod calls;
mod error;
mod handle;

pub use self::calls::LatchState;
pub(crate) use self::calls::SCRIPTS;
pub use self::error::LatchError;
pub use self::handle::Latch;
