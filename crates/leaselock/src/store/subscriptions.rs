//! Subscriptions: a waiter subscribes to a channel as long as it needs its messages.
//!
//! This file records which waiter wants which channel. A store with messages keeps the wanted channels of a set
//! subscribed over one connection, and reports here what it receives.

mod channel;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use self::channel::{Channel, ChannelState, ChannelStep, ChannelWaiter, Filter};
use super::{Event, SharedSink};
use crate::base::{debug_as, hold};

/// A set of channels that one connection serves, with those who wait for their messages.
#[derive(Default)]
pub(crate) struct Subscriptions {
    /// True if the store has no such messages.
    unavailable: bool,
    /// Receives every message too, whether or not it wakes a waiter.
    observer: Option<Observer>,
    table: Mutex<HashMap<Arc<str>, Channel>>,
    /// Notified when a channel has become wanted or unwanted.
    changed: Notify,
}

/// Receives what happens to a set.
struct Observer {
    sink: SharedSink,
    /// True if it learns of each gap when that begins, and of its end. Otherwise it learns when a gap is over.
    at_once: bool,
}

/// Wakes its waiter when a message comes to its channel.
///
/// Dropping it ends that. After the last one, the client unsubscribes in the background.
#[derive(Debug)]
pub(crate) struct Subscription {
    set: Arc<Subscriptions>,
    channel: Arc<str>,
    state: watch::Receiver<ChannelState>,
    waiter: Arc<ChannelWaiter>,
}

/// Channels to subscribe and to unsubscribe.
#[derive(Debug, Default)]
pub(super) struct Due {
    pub(super) subscribe: Vec<Arc<str>>,
    pub(super) unsubscribe: Vec<Arc<str>>,
}

impl Subscriptions {
    /// Creates the set of a store without messages, which never wakes a waiter.
    pub(crate) fn unavailable() -> Arc<Self> {
        Arc::new(Subscriptions {
            unavailable: true,
            ..Subscriptions::default()
        })
    }

    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Creates a set whose messages all go to the sink too, and each gap: `at_once` when that begins and when it ends,
    /// otherwise when messages arrive again after it.
    pub(super) fn observed(sink: SharedSink, at_once: bool) -> Arc<Self> {
        Arc::new(Subscriptions {
            observer: Some(Observer { sink, at_once }),
            ..Subscriptions::default()
        })
    }

    /// Subscribes to every message of the channel.
    #[cfg(test)]
    pub(crate) fn subscribe_to_all(self: &Arc<Self>, channel: &str) -> Subscription {
        self.subscribe(channel, |_| true)
    }

    /// Subscribes to the channel; the messages that pass the filter wake the waiter.
    pub(crate) fn subscribe(self: &Arc<Self>, channel: &str, filter: Filter) -> Subscription {
        let waiter = Arc::new(ChannelWaiter {
            filter,
            woken: Notify::new(),
        });
        let channel: Arc<str> = channel.into();
        let state = if self.unavailable {
            watch::channel(ChannelState::Refused).1
        } else {
            let mut table = hold(&self.table);
            let wanted = table.entry(Arc::clone(&channel));
            let state = wanted.or_default().add(&waiter);
            drop(table);
            self.changed.notify_one();
            state
        };
        Subscription {
            set: Arc::clone(self),
            channel,
            state,
            waiter,
        }
    }
}

/// For the task that keeps the channels of the set subscribed.
impl Subscriptions {
    /// True if the channel was not forgotten: a waiter wants it, or it was subscribed a moment ago.
    pub(super) fn has(&self, name: &str) -> bool {
        hold(&self.table).contains_key(name)
    }

    pub(super) async fn wanted(&self) {
        while self.is_idle() {
            self.changed().await;
        }
    }

    /// True if no waiter wants a channel, and none is subscribed.
    pub(super) fn is_idle(&self) -> bool {
        !hold(&self.table).values().any(Channel::is_live)
    }

    /// Waits for the next change; one that came since the last call counts. For one task.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns the pending changes, and regards all of them as done from here on.
    pub(super) fn due(&self) -> Due {
        let mut due = Due::default();
        hold(&self.table).retain(|name, channel| {
            match channel.step() {
                ChannelStep::Nothing => {}
                ChannelStep::Subscribe => due.subscribe.push(Arc::clone(name)),
                ChannelStep::Unsubscribe => due.unsubscribe.push(Arc::clone(name)),
                ChannelStep::Forget => return false,
            }
            true
        });
        due
    }

    /// Reports that messages arrive from now on, before the first of them. A gap before that counts as a message.
    pub(crate) fn subscribed(&self, name: &str) {
        if let Some(channel) = hold(&self.table).get_mut(name) {
            let missed = channel.subscribed();
            match &self.observer {
                Some(observer) if observer.at_once => (observer.sink)(Event::Ready),
                Some(observer) if missed => (observer.sink)(Event::Gap),
                _ => {}
            }
            if missed {
                channel.wake(|_| true);
            }
        }
    }

    pub(super) fn refused(&self, name: &str) {
        if let Some(channel) = hold(&self.table).get(name) {
            channel.refused();
        }
    }

    /// Reports that these channels' messages no longer arrive here, which wakes their waiters.
    pub(super) fn gone(&self, which: impl Fn(&str) -> bool) {
        let mut table = hold(&self.table);
        let channels = table.iter_mut().filter(|(name, _)| which(name));
        channels.for_each(|(_, channel)| channel.gone());
        drop(table);
        self.changed.notify_one();
    }

    pub(super) fn is_subscribed(&self, name: &str) -> bool {
        let table = hold(&self.table);
        let channel = table.get(name);
        channel.is_some_and(|channel| channel.state() == ChannelState::Subscribed)
    }

    /// Reports a gap until each channel is subscribed again, and forgets those without waiters; true if some channel was
    /// subscribed.
    pub(super) fn gap(&self) -> bool {
        let mut any = false;
        hold(&self.table).retain(|_, channel| {
            any |= channel.gap();
            channel.is_live()
        });
        if let Some(observer) = self.observer.as_ref().filter(|one| any && one.at_once) {
            (observer.sink)(Event::Gap);
        }
        any
    }

    pub(crate) fn message(&self, name: &str, words: &[u8]) {
        if let Some(observer) = &self.observer {
            (observer.sink)(Event::Message(words.to_vec()));
        }
        if let Some(channel) = hold(&self.table).get(name) {
            channel.wake(|waiter| (waiter.filter)(words));
        }
    }
}

/// For waiters that subscribe at a lock's node.
impl Subscription {
    pub(crate) fn is_among(&self, set: &Arc<Subscriptions>) -> bool {
        Arc::ptr_eq(&self.set, set)
    }

    /// True if it is this set's subscription to this channel, which works or may yet.
    pub(crate) fn is_for(&self, set: &Arc<Subscriptions>, channel: &str) -> bool {
        self.is_among(set)
            && *self.channel == *channel
            && *self.state.borrow() != ChannelState::Gone
    }

    pub(crate) fn is_refused(&self) -> bool {
        *self.state.borrow() == ChannelState::Refused
    }
}

impl Subscription {
    /// Waits until messages to the channel arrive, at most for `within`; true if they do.
    ///
    /// They do not in a folder, over a connection that the program handed in, and for a user without the right to the
    /// channel.
    ///
    /// # Cancel safety
    /// Safe: waiting changes nothing.
    pub(crate) async fn ready(&self, within: Duration) -> bool {
        let mut state = self.state.clone();
        let settled = state.wait_for(|state| *state != ChannelState::Pending);
        let settled = tokio::time::timeout(within, settled).await;
        settled.is_ok_and(|state| state.is_ok_and(|state| *state == ChannelState::Subscribed))
    }

    /// Waits for the next message, or for the end of a gap.
    ///
    /// A message since the last call counts. It never ends while the channel cannot be subscribed.
    ///
    /// # Cancel safety
    /// Safe: a wake-up in between is there for the next call.
    pub(crate) async fn woken(&self) {
        self.waiter.woken.notified().await;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(channel) = hold(&self.set.table).get_mut(&self.channel)
            && !channel.remove(&self.waiter)
        {
            return;
        }
        self.set.changed.notify_one();
    }
}

debug_as!(Subscriptions, it => { table: it.table });
