//! The values that stores and the layers above exchange.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{Result, StoreError};

/// The error of the latest attempt to connect to each server, if it failed.
pub(crate) type Reachability = BTreeMap<String, Option<StoreError>>;

/// An event of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// Messages from now on arrive. Earlier messages may have been missed.
    Ready,
    /// Messages may be missed until the next `Ready`.
    Gap,
    /// Some holder's process ended without a release: a lock may be free. Only folders know.
    Ended,
    /// A message to the channel.
    Message(Vec<u8>),
}

/// Receives events, on the client's own thread or in a task that waits for them; must not block.
pub(crate) type Sink = Box<dyn Fn(Event) + Send + Sync>;

/// A client with leases on a store.
pub(crate) trait LeaseHolder: std::fmt::Debug + Send + Sync {
    fn holds(&self) -> bool;

    /// Verifies every lease now, because something happened to the store.
    fn verify_all(&self);

    /// Learns that a server is not reached, with the error, or that it is again.
    fn connection(&self, _server: &str, _error: Option<&StoreError>) {}
}

/// A sink that several subscriptions share.
pub(crate) type SharedSink = Arc<dyn Fn(Event) + Send + Sync>;

/// The differences between stores, for the layers above.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Capabilities {
    /// True if messages can wake waiters. Otherwise waiters poll only.
    pub(crate) wakes: bool,
    /// How many keys of different names one call may have.
    pub(crate) keys_per_call: usize,
    /// True if requests for different names may leave in one call.
    pub(crate) combines: bool,
    /// True if the store has users, whose rights may be limited.
    pub(crate) has_users: bool,
    /// True if a request can wait for replicas.
    pub(crate) has_replicas: bool,
    /// True if plain commands of other protocols can be sent: only a server has other programs that lock in those.
    pub(crate) has_commands: bool,
    /// The longest pause between two polls of a waiter.
    pub(crate) look_every: Duration,
}

/// The counters of a lock's location in a folder, available without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// How often it was written.
    pub(crate) commits: u64,
    /// How much each call reads.
    pub(crate) bytes: u64,
}

/// An answer with the server's time in it.
pub(crate) struct Timed<R> {
    pub(crate) reply: Result<R>,
    pub(crate) time_us: Option<u64>,
}

#[cfg(test)]
pub(crate) fn no_leases() -> std::sync::Arc<dyn LeaseHolder> {
    #[derive(Debug)]
    struct NoLeases;
    impl LeaseHolder for NoLeases {
        fn holds(&self) -> bool {
            false
        }

        fn verify_all(&self) {}
    }
    std::sync::Arc::new(NoLeases)
}
