//! The barrier: so many parties wait for each other, generation after generation.

mod calls;
mod error;
mod handle;
#[cfg(all(test, feature = "embedded"))]
mod tests;

pub use self::calls::BarrierPass;
pub(crate) use self::calls::SCRIPTS;
pub use self::error::BarrierError;
pub use self::handle::Barrier;
