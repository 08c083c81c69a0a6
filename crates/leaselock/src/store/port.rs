//! What a store offers to those above, and what they offer to it.

use std::sync::Arc;
use std::time::Duration;

use crate::base::error::StoreError;

/// What a listener hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// Messages from now on arrive. Whatever was sent before may have been missed.
    Ready,
    /// Messages may be missed until the next `Ready`.
    Gap,
    /// Some holder's process ended without a word: a lock may be free.
    #[cfg_attr(
        not(feature = "embedded"),
        expect(dead_code, reason = "servers do not know")
    )]
    Ended,
    /// A message to the channel.
    Message(Vec<u8>),
}

/// Receives events; called on the client's own thread or where somebody waits for them, must not block.
pub(crate) type Sink = Box<dyn Fn(Event) + Send + Sync>;

/// Whoever has leases on a store.
pub(crate) trait Holder: Send + Sync {
    #[cfg_attr(
        not(feature = "redis"),
        expect(dead_code, reason = "nothing happens to connections")
    )]
    fn holds(&self) -> bool;

    /// Something happened to the store: every lease is verified now.
    fn verify_all(&self);
}

/// A sink that several share.
pub(crate) type SharedSink = Arc<dyn Fn(Event) + Send + Sync>;

/// What differs between stores, for those above.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Capabilities {
    /// Waiters can be woken by messages. Without, they have timers only.
    pub(crate) wakes: bool,
    /// How many keys of different names one call may have.
    pub(crate) keys_per_call: usize,
    /// Requests for different names may leave in one call.
    pub(crate) combines: bool,
    /// Each lock has a place of its own where its waiters listen.
    pub(crate) by_node: bool,
    /// Waiters look at least this often, whatever else they know.
    pub(crate) look_every: Duration,
}

/// What a lock's place in a folder has seen, to be had without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// How often it was written.
    pub(crate) commits: u64,
    /// How much is read by each call.
    pub(crate) bytes: u64,
}

/// An answer with the server's time in it.
pub(crate) struct Timed<R> {
    pub(crate) reply: Result<R, StoreError>,
    pub(crate) time_us: Option<u64>,
}
