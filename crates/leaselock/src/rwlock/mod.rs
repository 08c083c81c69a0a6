//! The read-write lock: many readers or one writer.

mod change;
mod kind;
pub(crate) mod lock;
mod shared;
mod upgradable;

pub use self::change::ChangeError;
pub(crate) use self::kind::{DOWNGRADE, READ, UPGRADE};
pub use self::shared::SharedLease;
pub use self::upgradable::UpgradableLease;
