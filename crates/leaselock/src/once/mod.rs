//! Work that runs once for a key: all callers get its result, now and later. A new primitive that records how a run
//! ended begins as a copy of it.

mod calls;
mod error;
mod handle;
mod run;
mod state;
#[cfg(all(test, feature = "embedded"))]
mod tests;

pub(crate) use self::calls::ONCE;
pub use self::error::OnceError;
pub use self::handle::Once;
pub use self::run::{OnceRun, OnceStart};
pub use self::state::{OnceResult, OnceState};
