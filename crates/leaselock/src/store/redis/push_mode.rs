//! Whether a store's connections for requests receive messages too.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use super::push_receiver::{PushChannel, PushReceiver};
use crate::base::error::StoreError;
use crate::store::Sink;

/// No task has waited yet.
const NONE: u8 = 0;
const RECEIVE: u8 = 1;
/// The latest try failed, so the next connection does without: requests come first.
const NOT_NOW: u8 = 2;
/// The server refuses, which only an operator can change.
const NEVER: u8 = 3;

#[derive(Debug, Default)]
pub(super) struct PushMode {
    channel: OnceLock<Arc<PushChannel>>,
    state: AtomicU8,
}

impl PushMode {
    pub(super) fn deliver_along(&self, channel: &str, sink: Sink) {
        let name = channel.to_owned();
        drop(self.channel.set(Arc::new(PushChannel { name, sink }))); // the first one is enough
    }

    /// Records that a task waits; false without a sink for messages.
    pub(super) fn begin(&self) -> bool {
        self.change(NONE, RECEIVE);
        self.channel.get().is_some()
    }

    pub(super) fn is_on(&self) -> bool {
        self.state.load(Ordering::SeqCst) == RECEIVE
    }

    /// Returns the receiver for the next connection, when it should have one.
    pub(super) fn receiver(&self) -> Option<Arc<PushReceiver>> {
        let channel = self.channel.get().filter(|_| self.is_on())?;
        Some(PushReceiver::new(channel))
    }

    /// Records that a receiving connection failed; true when a plain one is worth an immediate try.
    pub(super) fn failed(&self, error: &StoreError) -> bool {
        let passes = error.is_transient();
        self.change(RECEIVE, if passes { NOT_NOW } else { NEVER });
        !passes
    }

    /// Records a connection without a receiver; true when it might have had one.
    pub(super) fn done_without(&self) -> bool {
        self.change(NOT_NOW, RECEIVE);
        self.state.load(Ordering::SeqCst) != NONE
    }

    /// Changes the mode, unless another task was first.
    fn change(&self, from: u8, to: u8) {
        let (success, failure) = (Ordering::SeqCst, Ordering::SeqCst);
        self.state.compare_exchange(from, to, success, failure).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::ErrorKind;

    fn mode() -> PushMode {
        let mode = PushMode::default();
        mode.deliver_along("ch", Box::new(|_| {}));
        assert!(mode.receiver().is_none() && !mode.done_without() && mode.begin());
        mode
    }

    #[test]
    fn after_a_failure_that_passes_one_connection_does_without_and_the_next_is_to_hear_again() {
        let mode = mode();
        assert!(mode.receiver().is_some());
        assert!(!mode.failed(&StoreError::refused(ErrorKind::NoReply, "too late")));
        assert!(mode.receiver().is_none());
        assert!(mode.done_without());
        assert!(mode.receiver().is_some());
    }

    #[test]
    fn what_the_server_refuses_is_not_asked_for_again() {
        let mode = mode();
        assert!(mode.failed(&StoreError::refused(ErrorKind::Forbidden, "NOPERM")));
        assert!(mode.done_without() && mode.begin() && mode.receiver().is_none());
    }
}
