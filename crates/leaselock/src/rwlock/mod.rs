//! The read-write lock: many readers or one writer.

mod change;
mod kind;
pub(crate) mod lock;
pub(crate) mod mode;
mod upgradable;

pub use self::change::ChangeError;
pub(crate) use self::kind::{DOWNGRADE, READ, UPGRADE};
