//! The protocols of other lock programs in Redis or Valkey, for fleets that use one of them.
//!
//! Each has its file here, which describes its hole at the top. None of them is better than the native one.

pub(crate) mod calls;
pub(crate) mod custom;
mod kinds;
pub(crate) mod python_redis_lock;
pub(crate) mod redisson;
mod release_signal;
pub(crate) mod setex_renamenx;
pub(crate) mod setnx_getset;
pub(crate) mod setnx_pexpire;
pub(crate) mod watch_multi;

pub(crate) use self::kinds::SCRIPTS;
pub use self::kinds::{DEFAULT_LATENCY_GUARD, Protocol};
