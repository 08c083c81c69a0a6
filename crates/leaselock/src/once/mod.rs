//! Work that runs once for a key: all callers get its result, now and later.

mod begin;
mod calls;
mod error;
mod handle;
mod run;
mod state;
#[cfg(all(test, feature = "embedded"))]
mod tests;

pub use self::begin::OnceStart;
pub(crate) use self::calls::ONCE;
pub use self::error::OnceError;
pub use self::handle::Once;
pub use self::run::OnceRun;
pub use self::state::{OnceResult, OnceState};
