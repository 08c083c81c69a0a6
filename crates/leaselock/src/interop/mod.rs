//! Locks of other libraries.

pub(crate) mod preset;
pub(crate) mod protocol;
pub(crate) mod release_signal;
