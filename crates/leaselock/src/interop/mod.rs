//! Locks of other libraries.

pub(crate) mod preset;
pub(crate) mod protocol;

pub use self::preset::Preset;
pub use self::protocol::{DEFAULT_LATENCY_GUARD, Protocol};
/// The redis client library, in the version whose clients and connections a program can hand in.
///
/// **Not covered by the promise of versions**: `interop::redis` follows redis-rs, and a new major version of it is a minor
/// release of leaselock.
#[cfg(feature = "redis-connection")]
pub use redis;
