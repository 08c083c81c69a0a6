//! Where leases are stored.
//!
//! A store does two things. It runs a script atomically on its declared keys. It delivers wake-up messages, and says
//! when it may have missed some. It is independent of the primitive.

#[cfg(not(all(feature = "redis", feature = "embedded")))]
mod absent;
#[cfg(feature = "embedded")]
mod embedded;
pub(crate) mod functions;
pub(crate) mod interface;
pub(crate) mod port;
#[cfg(feature = "redis")]
mod redis;
pub(crate) mod report;
pub(crate) mod subscriptions;
#[cfg(feature = "tls")]
pub(crate) mod tls_options;
pub(crate) mod url;

#[cfg(not(feature = "embedded"))]
pub(crate) use absent::AbsentStore as EmbeddedStore;
#[cfg(not(feature = "redis"))]
pub(crate) use absent::{AbsentConnection as DedicatedConnection, AbsentStore as RedisStore};
#[cfg(feature = "embedded")]
pub(crate) use embedded::EmbeddedStore;
pub(crate) use functions::LoadedFunctions;
pub(crate) use interface::Store;
pub(crate) use port::{
    Capabilities, Event, LeaseHolder, Reachability, SharedSink, Sink, Timed, Traffic,
};
#[cfg(feature = "redis")]
pub(crate) use redis::{DedicatedConnection, RedisStore};
pub(crate) use report::{Finding, Guarantee, Report};
pub(crate) use subscriptions::Subscriptions;
