//! Grants and changes that count only once replicas have them.

pub(crate) mod call;
pub(crate) mod confirm;
pub(crate) mod unconfirmed;
#[cfg(not(feature = "redis"))]
mod without;
#[cfg(feature = "redis")]
mod written;

#[cfg(not(feature = "redis"))]
pub(crate) use self::without::Written;
#[cfg(feature = "redis")]
pub(crate) use self::written::Written;
