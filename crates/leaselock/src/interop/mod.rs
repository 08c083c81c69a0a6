//! Locks of other libraries.

pub(crate) mod preset;
pub(crate) mod protocol;

pub use self::preset::Preset;
pub use self::protocol::{DEFAULT_LATENCY_GUARD, Protocol};
