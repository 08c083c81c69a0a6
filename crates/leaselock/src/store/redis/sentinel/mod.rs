//! A server that Sentinels name.

mod ask;
mod doctor;
mod follow;
mod locator;
#[cfg(test)]
mod tests;

pub(super) use self::doctor::view;
pub(super) use self::follow::follow;
pub(super) use self::locator::{Located, PrimaryLocator};
