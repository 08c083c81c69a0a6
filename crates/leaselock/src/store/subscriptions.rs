//! Temporary subscriptions: a waiter subscribes to a channel as long as it needs its messages.
//!
//! The set of channels changes, unlike a client's own channel for its grants. This file records which waiter wants
//! which channel. A store with messages subscribes over one connection of the client's own thread, and reports here
//! what it receives.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::{Event, SharedSink};

/// Decides whether a message with these words wakes the waiter.
pub(crate) type Waker = fn(&[u8]) -> bool;

/// All temporary subscriptions of a client.
pub(crate) struct Subscriptions {
    /// True if the store has no such messages.
    deaf: bool,
    /// Receives every message, and each gap, reported when messages arrive again after it.
    told: Option<SharedSink>,
    table: Mutex<HashMap<Arc<str>, Channel>>,
    /// Notified when a channel has become wanted or unwanted.
    changed: Notify,
}

/// One channel, from its first waiter to the end of its subscription.
#[derive(Debug)]
struct Channel {
    state: watch::Sender<State>,
    /// True if it was subscribed before, so that a message may have been missed.
    missed: bool,
    hooks: Vec<Arc<Hook>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not subscribed yet, or not at present.
    Silent,
    Heard,
    /// The store refuses the subscription.
    Refused,
    /// The channel has moved; its messages arrive elsewhere, if anywhere.
    Gone,
}

/// The registration of one waiter at its channel.
struct Hook {
    rings: Waker,
    rung: Notify,
}

/// Wakes its waiter when a message comes to its channel.
///
/// Dropping it ends that. After the last one, the client unsubscribes in the background.
#[derive(Debug)]
pub(crate) struct Subscription {
    bells: Arc<Subscriptions>,
    channel: Arc<str>,
    state: watch::Receiver<State>,
    hook: Arc<Hook>,
}

/// Channels to subscribe and to unsubscribe.
#[derive(Debug, Default)]
pub(super) struct Due {
    pub(super) subscribe: Vec<Arc<str>>,
    pub(super) unsubscribe: Vec<Arc<str>>,
}

impl Subscriptions {
    /// Creates the set of a store without messages, which never wakes a waiter.
    pub(crate) fn deaf() -> Arc<Self> {
        Self::with(true, None)
    }

    fn with(deaf: bool, told: Option<SharedSink>) -> Arc<Self> {
        Arc::new(Subscriptions {
            deaf,
            told,
            table: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// Subscribes to every message of the channel.
    #[cfg(all(test, feature = "redis"))]
    pub(crate) fn hear(self: &Arc<Self>, channel: &str) -> Subscription {
        self.hear_only(channel, |_| true)
    }

    /// Subscribes to the messages that `rings` accepts.
    pub(crate) fn hear_only(self: &Arc<Self>, channel: &str, rings: Waker) -> Subscription {
        let hook = Arc::new(Hook {
            rings,
            rung: Notify::new(),
        });
        let (channel, state) = self.hang(channel, &hook);
        Subscription {
            bells: Arc::clone(self),
            channel,
            state,
            hook,
        }
    }

    fn hang(&self, name: &str, hook: &Arc<Hook>) -> (Arc<str>, watch::Receiver<State>) {
        let name: Arc<str> = name.into();
        if self.deaf {
            return (name, watch::channel(State::Refused).1);
        }
        let mut table = self.table();
        let channel = table.entry(Arc::clone(&name)).or_insert_with(|| Channel {
            state: watch::Sender::new(State::Silent),
            missed: false,
            hooks: Vec::new(),
        });
        channel.hooks.push(Arc::clone(hook));
        if *channel.state.borrow() == State::Gone {
            channel.state.send_replace(State::Silent); // it may have come back
        }
        let state = channel.state.subscribe();
        drop(table);
        self.changed.notify_one();
        (name, state)
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Arc<str>, Channel>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates the set of a store that subscribes to the channels.
#[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "no other hears"))]
impl Subscriptions {
    pub(crate) fn new() -> Arc<Self> {
        Self::with(false, None)
    }

    /// Creates a set whose messages all go to the sink too, whether or not they wake a waiter.
    pub(super) fn telling(sink: SharedSink) -> Arc<Self> {
        Self::with(false, Some(sink))
    }

    /// Waits until a channel is wanted.
    pub(super) async fn wanted(&self) {
        while self.is_idle() {
            self.changed().await;
        }
    }

    /// True if no channel is wanted.
    pub(super) fn is_idle(&self) -> bool {
        self.table().is_empty()
    }

    /// Waits for the next change; one that came since the last call counts. For one task.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns the pending changes, and regards all of them as done from here on.
    pub(super) fn due(&self) -> Due {
        let mut due = Due::default();
        self.table().retain(|name, channel| {
            let (wanted, state) = (!channel.hooks.is_empty(), *channel.state.borrow());
            match (wanted, state) {
                (true, State::Silent) => due.subscribe.push(Arc::clone(name)),
                (false, State::Heard) => {
                    due.unsubscribe.push(Arc::clone(name));
                    // It may be wanted again before the unsubscription; then the subscription follows it.
                    channel.state.send_replace(State::Silent);
                }
                (true, _) => {}
                (false, _) => return false,
            }
            true
        });
        due
    }

    /// Reports that messages arrive from now on. A gap before that counts as a message.
    pub(crate) fn heard(&self, name: &str) {
        if let Some(channel) = self.table().get_mut(name) {
            channel.state.send_replace(State::Heard);
            if std::mem::take(&mut channel.missed) {
                self.tell(Event::Gap);
                channel.hooks.iter().for_each(|hook| hook.rung.notify_one());
            }
        }
    }

    /// Reports that the store refuses the subscription.
    pub(super) fn refused(&self, name: &str) {
        if let Some(channel) = self.table().get(name) {
            channel.state.send_replace(State::Refused);
        }
    }

    /// Reports that these channels' messages no longer arrive here, which wakes their waiters.
    pub(super) fn gone(&self, which: impl Fn(&str) -> bool) {
        for (_, channel) in self.table().iter_mut().filter(|(name, _)| which(name)) {
            if channel.state.send_replace(State::Gone) != State::Gone {
                channel.missed = true;
                channel.hooks.iter().for_each(|hook| hook.rung.notify_one());
            }
        }
        self.changed.notify_one();
    }

    /// True if messages to the channel arrive.
    pub(super) fn is_heard(&self, name: &[u8]) -> bool {
        let name = std::str::from_utf8(name).ok();
        let table = self.table();
        let channel = name.and_then(|name| table.get(name));
        channel.is_some_and(|channel| *channel.state.borrow() == State::Heard)
    }

    fn tell(&self, event: Event) {
        if let Some(told) = &self.told {
            told(event);
        }
    }

    /// Reports a gap until each channel is subscribed again; true if some channel was subscribed.
    pub(super) fn gap(&self) -> bool {
        let mut any = false;
        for channel in self.table().values_mut() {
            if *channel.state.borrow() == State::Gone {
                continue;
            }
            let heard = channel.state.send_replace(State::Silent) == State::Heard;
            channel.missed |= heard;
            any |= heard;
        }
        any
    }

    /// Reports a message to the channel.
    pub(crate) fn message(&self, name: &[u8], words: &[u8]) {
        let Ok(name) = std::str::from_utf8(name) else {
            return; // not one of these channels
        };
        self.tell(Event::Message(words.to_vec()));
        if let Some(channel) = self.table().get(name) {
            let hooks = channel.hooks.iter().filter(|hook| (hook.rings)(words));
            hooks.for_each(|hook| hook.rung.notify_one());
        }
    }
}

/// For waiters that subscribe at a lock's node.
impl Subscription {
    /// True if it belongs to this set.
    pub(crate) fn is_among(&self, bells: &Arc<Subscriptions>) -> bool {
        Arc::ptr_eq(&self.bells, bells)
    }

    /// True if it is this set's subscription to this channel, which works or may yet.
    pub(crate) fn is_for(&self, bells: &Arc<Subscriptions>, channel: &str) -> bool {
        self.is_among(bells) && *self.channel == *channel && *self.state.borrow() != State::Gone
    }

    /// True if the store refuses the subscription.
    pub(crate) fn is_refused(&self) -> bool {
        *self.state.borrow() == State::Refused
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
        let settled = state.wait_for(|state| *state != State::Silent);
        let settled = tokio::time::timeout(within, settled).await;
        settled.is_ok_and(|state| state.is_ok_and(|state| *state == State::Heard))
    }

    /// Waits for the next message, or for the end of a gap.
    ///
    /// A message since the last call counts. It never ends while the channel cannot be subscribed.
    ///
    /// # Cancel safety
    /// Safe: a wake-up in between is there for the next call.
    pub(crate) async fn rung(&self) {
        self.hook.rung.notified().await;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(channel) = self.bells.table().get_mut(&self.channel) {
            channel.hooks.retain(|hook| !Arc::ptr_eq(hook, &self.hook));
            if !channel.hooks.is_empty() {
                return;
            }
        }
        self.bells.changed.notify_one();
    }
}

impl fmt::Debug for Subscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriptions")
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").finish_non_exhaustive()
    }
}
