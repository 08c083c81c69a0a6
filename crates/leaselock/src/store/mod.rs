//! Where leases live. A store does two things: it runs a script atomically on its declared keys, and it delivers
//! wake-up messages, saying when it may have missed some. It never learns which primitive it serves.

pub(crate) mod any;
#[cfg(feature = "embedded")]
pub(crate) mod embedded;
pub(crate) mod port;
#[cfg(feature = "redis")]
pub(crate) mod redis;
pub(crate) mod report;
pub(crate) mod subscriptions;
pub(crate) mod url;

pub(crate) use any::Store;
pub(crate) use port::{Capabilities, Event, Holder, SharedSink, Sink, Timed, Traffic};
