//! Values that are independent of locks: clocks, tokens, times, errors. Names and fencing tokens are those of `leaselock-fence`.

pub(crate) mod backoff;
pub(crate) mod clock;
pub(crate) mod clock_watch;
pub(crate) mod counters;
pub(crate) mod error;
pub(crate) mod hex;
pub(crate) mod keyed_mutex;
pub(crate) mod printable;
pub(crate) mod process;
#[cfg(feature = "serde")]
pub(crate) mod serde_units;
pub(crate) mod shorthand;
pub(crate) mod slots;
pub(crate) mod span;
pub(crate) mod token;

pub(crate) use self::clock::{CLOCK, Clock, Drift, Moment, Ttl};
pub(crate) use self::error::{ErrorKind, InvalidInput, Result, StoreError, refusal};
pub(crate) use self::shorthand::{debug_as, hold};
pub(crate) use self::span::{rounded, span};
pub(crate) use self::token::{ClientId, Token, fence};
