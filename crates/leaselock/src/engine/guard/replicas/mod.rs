//! Grants and changes that count only once replicas have them.

pub(crate) mod confirm;
pub(crate) mod unconfirmed;
mod written;

pub(crate) use self::written::Written;
