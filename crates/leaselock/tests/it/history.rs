//! Many processes on one name, and what they saw laid side by side.

pub(crate) mod counter;
pub(crate) mod nemesis;
pub(crate) mod rotation;
