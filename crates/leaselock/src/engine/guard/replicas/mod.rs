//! Grants and changes that count only once replicas have them.

pub(crate) mod confirm;
mod written;

pub(crate) use self::written::{Shortfall, Written};
