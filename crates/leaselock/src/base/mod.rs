//! Values that are independent of locks: clocks, names, tokens, times, errors.

pub(crate) mod backoff;
pub(crate) mod clock;
pub(crate) mod clock_watch;
pub(crate) mod error;
pub(crate) mod fence;
pub(crate) mod hex;
pub(crate) mod invalid_input;
pub(crate) mod join;
pub(crate) mod keyed_mutex;
pub(crate) mod name;
pub(crate) mod sequencer;
pub(crate) mod slots;
pub(crate) mod sync;
pub(crate) mod token;
pub(crate) mod ttl;
pub(crate) mod unseen;
