//! Where leases are stored.
//!
//! A store does two things. It runs a script atomically on its declared keys. It delivers wake-up messages, and says
//! when it may have missed some. It is independent of the primitive.

#[cfg(feature = "embedded")]
pub(crate) mod embedded;
pub(crate) mod port;
#[cfg(feature = "redis")]
pub(crate) mod redis;
pub(crate) mod report;
pub(crate) mod subscriptions;
#[cfg(feature = "tls")]
pub(crate) mod tls_options;
pub(crate) mod url;

pub(crate) use port::{Capabilities, Event, LeaseHolder, SharedSink, Sink, Timed, Traffic};
