//! Grants that count only once replicas have them.

pub(crate) mod call;
pub(crate) mod confirm;
#[cfg(feature = "redis")]
pub(crate) mod pool;
#[cfg(feature = "redis")]
pub(crate) mod written;
