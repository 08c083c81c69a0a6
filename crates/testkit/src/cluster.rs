//! A real cluster of a test's own: primaries, replicas, and the moves that operators make.

mod builder;
mod moves;
mod running;
mod slots;

pub use self::builder::Builder;
pub use self::running::Cluster;
pub use self::slots::SLOTS;

#[cfg(test)]
mod tests;
