//! One channel of a set: its state, and those who wait for its messages. No I/O.

use std::sync::Arc;

use tokio::sync::{Notify, watch};

/// Decides whether a message with these words wakes the waiter.
pub(crate) type Filter = fn(&[u8]) -> bool;

/// The registration of one waiter at its channel.
#[derive(Debug)]
pub(super) struct ChannelWaiter {
    pub(super) filter: Filter,
    pub(super) woken: Notify,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ChannelState {
    /// Not subscribed yet, or not at present.
    #[default]
    Pending,
    Subscribed,
    /// The store refuses the subscription.
    Refused,
    /// The channel has moved; its messages arrive elsewhere, if anywhere.
    Gone,
}

/// What the connection has to do for a channel.
pub(super) enum ChannelStep {
    Nothing,
    Subscribe,
    Unsubscribe,
    /// No waiter wants the channel, and it is not subscribed.
    Forget,
}

/// One channel, from its first waiter to the end of its subscription.
#[derive(Debug, Default)]
pub(super) struct Channel {
    state: watch::Sender<ChannelState>,
    /// True if it was subscribed before, so that a message may have been missed.
    missed: bool,
    waiters: Vec<Arc<ChannelWaiter>>,
}

impl Channel {
    pub(super) fn add(&mut self, waiter: &Arc<ChannelWaiter>) -> watch::Receiver<ChannelState> {
        self.waiters.push(Arc::clone(waiter));
        if self.state() == ChannelState::Gone {
            self.state.send_replace(ChannelState::Pending); // it may have come back
        }
        self.state.subscribe()
    }

    /// Removes a waiter; true when it was the last one.
    pub(super) fn remove(&mut self, waiter: &Arc<ChannelWaiter>) -> bool {
        self.waiters.retain(|other| !Arc::ptr_eq(other, waiter));
        self.waiters.is_empty()
    }

    /// True if a waiter wants it, or it is subscribed.
    pub(super) fn is_live(&self) -> bool {
        !self.waiters.is_empty() || self.state() == ChannelState::Subscribed
    }

    pub(super) fn state(&self) -> ChannelState {
        *self.state.borrow()
    }

    /// Returns the pending step, and regards it as done from here on.
    pub(super) fn step(&mut self) -> ChannelStep {
        match (!self.waiters.is_empty(), self.state()) {
            (true, ChannelState::Pending) => ChannelStep::Subscribe,
            (true, _) => ChannelStep::Nothing,
            (false, ChannelState::Subscribed) => {
                // It may be wanted again before the unsubscription; then the subscription follows it.
                self.state.send_replace(ChannelState::Pending);
                ChannelStep::Unsubscribe
            }
            (false, _) => ChannelStep::Forget,
        }
    }

    /// Records that messages arrive; true when one may have been missed before.
    pub(super) fn subscribed(&mut self) -> bool {
        self.state.send_replace(ChannelState::Subscribed);
        std::mem::take(&mut self.missed)
    }

    pub(super) fn refused(&self) {
        self.state.send_replace(ChannelState::Refused);
    }

    /// Records that messages arrive elsewhere, which wakes the waiters.
    pub(super) fn gone(&mut self) {
        if self.state.send_replace(ChannelState::Gone) != ChannelState::Gone {
            self.missed = true;
            self.wake(|_| true);
        }
    }

    /// Records that no messages arrive at present; true when they did.
    pub(super) fn gap(&mut self) -> bool {
        if self.state() == ChannelState::Gone {
            return false;
        }
        let was_subscribed =
            self.state.send_replace(ChannelState::Pending) == ChannelState::Subscribed;
        self.missed |= was_subscribed;
        was_subscribed
    }

    pub(super) fn wake(&self, which: impl Fn(&ChannelWaiter) -> bool) {
        let waiters = self.waiters.iter().filter(|waiter| which(waiter));
        waiters.for_each(|waiter| waiter.woken.notify_one());
    }
}
