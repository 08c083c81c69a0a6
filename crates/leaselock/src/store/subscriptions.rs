//! Bells: whoever waits for something that only a message to some channel tells of hears that channel meanwhile.
//!
//! A changing set of channels, unlike the one of a client on which it is told of its grants. Here is who wants what; a
//! store with messages hears the channels over one connection of the client's own thread, and says here what it hears.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::{Event, SharedSink};

/// Whether a message with these words rings.
pub(crate) type Waker = fn(&[u8]) -> bool;

/// All bells of a client.
pub(crate) struct Subscriptions {
    /// The store has no such messages.
    deaf: bool,
    /// Who is told every message, and of a gap when messages arrive again after it.
    told: Option<SharedSink>,
    table: Mutex<HashMap<Arc<str>, Channel>>,
    /// A channel has become wanted, or has ceased to be.
    changed: Notify,
}

/// One channel, from the first bell to the end of its subscription.
#[derive(Debug)]
struct Channel {
    state: watch::Sender<State>,
    /// It was heard before, so something may have been missed.
    missed: bool,
    hooks: Vec<Arc<Hook>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not heard yet, or not at present.
    Silent,
    Heard,
    /// The store will not let us.
    Refused,
    /// It is heard elsewhere from now on, if anywhere.
    Gone,
}

/// Where one bell hangs.
struct Hook {
    rings: Waker,
    rung: Notify,
}

/// Rings when something is published to its channel. Dropping it ends that; the channel is left in the background when
/// it was the last one.
#[derive(Debug)]
pub(crate) struct Subscription {
    bells: Arc<Subscriptions>,
    channel: Arc<str>,
    state: watch::Receiver<State>,
    hook: Arc<Hook>,
}

/// What is to be done about the channels.
#[derive(Debug, Default)]
pub(super) struct Due {
    pub(super) subscribe: Vec<Arc<str>>,
    pub(super) unsubscribe: Vec<Arc<str>>,
}

impl Subscriptions {
    /// For a store without messages: no bell ever rings.
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

    /// A bell that rings with every message to the channel.
    #[cfg(all(test, feature = "redis"))]
    pub(crate) fn hear(self: &Arc<Self>, channel: &str) -> Subscription {
        self.hear_only(channel, |_| true)
    }

    /// A bell that rings with those messages only.
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

/// For the store that hears the channels.
#[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "no other hears"))]
impl Subscriptions {
    pub(crate) fn new() -> Arc<Self> {
        Self::with(false, None)
    }

    /// Bells whose messages somebody is told, whichever of them they ring.
    pub(super) fn telling(sink: SharedSink) -> Arc<Self> {
        Self::with(false, Some(sink))
    }

    /// Ends when there is a channel to be heard.
    pub(super) async fn wanted(&self) {
        while self.is_idle() {
            self.changed().await;
        }
    }

    /// No channel is wanted.
    pub(super) fn is_idle(&self) -> bool {
        self.table().is_empty()
    }

    /// Ends with the next change; one that came since the last call counts. For one task.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// What is to be done about the channels, all of which is taken for done from here on.
    pub(super) fn due(&self) -> Due {
        let mut due = Due::default();
        self.table().retain(|name, channel| {
            let (wanted, state) = (!channel.hooks.is_empty(), *channel.state.borrow());
            match (wanted, state) {
                (true, State::Silent) => due.subscribe.push(Arc::clone(name)),
                (false, State::Heard) => {
                    due.unsubscribe.push(Arc::clone(name));
                    // It may be wanted again before that is done, and is subscribed to after it then.
                    channel.state.send_replace(State::Silent);
                }
                (true, _) => {}
                (false, _) => return false,
            }
            true
        });
        due
    }

    /// Messages to the channel arrive from now on. What may have been missed before counts as one.
    pub(crate) fn heard(&self, name: &str) {
        if let Some(channel) = self.table().get_mut(name) {
            channel.state.send_replace(State::Heard);
            if std::mem::take(&mut channel.missed) {
                self.tell(Event::Gap);
                channel.hooks.iter().for_each(|hook| hook.rung.notify_one());
            }
        }
    }

    /// The store will not let us hear the channel.
    pub(super) fn refused(&self, name: &str) {
        if let Some(channel) = self.table().get(name) {
            channel.state.send_replace(State::Refused);
        }
    }

    /// Messages to these channels do not arrive here any more, so whoever wants them is rung.
    pub(super) fn gone(&self, which: impl Fn(&str) -> bool) {
        for (_, channel) in self.table().iter_mut().filter(|(name, _)| which(name)) {
            if channel.state.send_replace(State::Gone) != State::Gone {
                channel.missed = true;
                channel.hooks.iter().for_each(|hook| hook.rung.notify_one());
            }
        }
        self.changed.notify_one();
    }

    /// Messages to the channel arrive.
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

    /// Nothing arrives until each channel is heard again. True when something did before.
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

    /// A message to the channel has come.
    pub(crate) fn message(&self, name: &[u8], words: &[u8]) {
        let Ok(name) = std::str::from_utf8(name) else {
            return; // it is none of ours
        };
        self.tell(Event::Message(words.to_vec()));
        if let Some(channel) = self.table().get(name) {
            let hooks = channel.hooks.iter().filter(|hook| (hook.rings)(words));
            hooks.for_each(|hook| hook.rung.notify_one());
        }
    }
}

/// For whoever listens where a lock lies.
impl Subscription {
    /// It hangs among these.
    pub(crate) fn is_among(&self, bells: &Arc<Subscriptions>) -> bool {
        Arc::ptr_eq(&self.bells, bells)
    }

    /// It hangs among these on this channel, which is heard or may yet be.
    pub(crate) fn is_for(&self, bells: &Arc<Subscriptions>, channel: &str) -> bool {
        self.is_among(bells) && *self.channel == *channel && *self.state.borrow() != State::Gone
    }

    /// The store does not let us hear the channel.
    pub(crate) fn is_refused(&self) -> bool {
        *self.state.borrow() == State::Refused
    }
}

impl Subscription {
    /// Waits until messages to the channel arrive, at most for `within`; tells whether they do. They do not in a
    /// folder, over a connection that was handed in, and where the user may not hear the channel.
    ///
    /// # Cancel safety
    /// Safe: waiting changes nothing.
    pub(crate) async fn ready(&self, within: Duration) -> bool {
        let mut state = self.state.clone();
        let settled = state.wait_for(|state| *state != State::Silent);
        let settled = tokio::time::timeout(within, settled).await;
        settled.is_ok_and(|state| state.is_ok_and(|state| *state == State::Heard))
    }

    /// Ends with the next message, or when messages arrive again after some may have been missed; what came since the
    /// last call counts. Never ends while the channel cannot be heard.
    ///
    /// # Cancel safety
    /// Safe: what has rung is there for the next call.
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
