//! A server that Sentinels name: which of them to ask, and what they have said.

pub(crate) mod ask;
pub(crate) mod locator;
#[cfg(test)]
mod tests;

pub(crate) use self::locator::{Located, PrimaryLocator};
