//! A toy that holds nothing: a flag that is raised, and that others wait for.

mod calls;
mod handle;

pub(crate) use self::calls::SCRIPTS;
pub use self::handle::{Flag, FlagError};
