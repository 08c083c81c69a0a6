//! Requests that leave together: what many tasks want at the same moment goes to the store in one call.
//!
//! A lone request goes straight, as if this were not here. While others of its kind are on their way, a request waits
//! in a queue until the tasks that are ready to run have had their turn, and leaves with all that gathered. Each has its
//! own answer, time-out and clean-up: whoever goes away while it is in the queue was surely never sent.

mod batcher;
pub(crate) mod contention_filter;
mod driver;
pub(crate) mod kinds;
mod queue;
mod reply;
mod shared;

pub(crate) use self::batcher::Batcher;
#[cfg(feature = "redis")]
pub(crate) use self::batcher::SoloPermit;
pub(crate) use self::contention_filter::ContentionFilter;
pub(crate) use self::reply::{BatchOutcome, Pending};
