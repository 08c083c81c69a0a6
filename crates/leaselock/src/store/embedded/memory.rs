//! The store in this process's memory: for tests of programs that use locks, and for locks within one process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::mpsc;

use super::engine;
use super::image::Image;
use super::step::{Step, Surroundings, one_tag};
use crate::base::{Clock, Result, clock, hold};
use crate::script::{Answer, Call, Listed};
use crate::store::{Event, Sink};

/// How many messages a listener may be behind before it misses some.
const QUEUE: usize = 1024;
/// The wall time of a manual clock at the start, so that tests see the same times in every run.
const MANUAL_ANCHOR_US: u64 = 1_700_000_000_000_000;

#[derive(Debug, Clone)]
pub(crate) struct MemoryStore {
    name: String,
    clock: Clock,
    shared: Arc<MemoryState>,
}

#[derive(Debug)]
struct MemoryState {
    anchor_us: u64,
    images: Mutex<Images>,
    listeners: Mutex<HashMap<Vec<u8>, Vec<Arc<Mailbox>>>>,
}

#[derive(Debug, Default)]
struct Images {
    by_tag: HashMap<String, Image>,
    calls_since_sweep: usize,
}

#[derive(Debug)]
struct Mailbox {
    sender: mpsc::Sender<Vec<u8>>,
    overflowed: AtomicBool,
}

impl MemoryStore {
    /// Returns the store of this name, which lives as long as any client uses it.
    pub(super) fn named(name: &str, clock: Clock) -> Self {
        static NAMED: Mutex<Option<HashMap<String, Weak<MemoryState>>>> = Mutex::new(None);
        let boot_us = clock.now().as_nanos() / 1000;
        let anchor_us = match clock.is_manual() {
            true => MANUAL_ANCHOR_US,
            false => clock::wall_us().saturating_sub(boot_us),
        };
        let new = || {
            Arc::new(MemoryState {
                anchor_us,
                images: Mutex::default(),
                listeners: Mutex::default(),
            })
        };
        let shared = if name.is_empty() {
            new()
        } else {
            let mut named = hold(&NAMED);
            let named = named.get_or_insert_default();
            named.retain(|_, shared| shared.strong_count() > 0);
            let known = named.entry(name.to_owned()).or_default();
            known.upgrade().unwrap_or_else(|| {
                let shared = new();
                *known = Arc::downgrade(&shared);
                shared
            })
        };
        MemoryStore {
            name: name.to_owned(),
            clock,
            shared,
        }
    }

    fn now_us(&self) -> u64 {
        (self.clock.now().as_nanos() / 1000).saturating_add(self.shared.anchor_us)
    }

    pub(super) fn run(&self, call: &Call) -> Result<Answer> {
        let tag = one_tag(call)?;
        let mut images = hold(&self.shared.images);
        let now_us = self.now_us();
        // A copy, so that a failed script leaves no trace.
        let mut image = images.by_tag.get(tag).cloned().unwrap_or_default();
        image.settle(now_us);
        image.changed = false;
        let step = Step::new(call, image, now_us, &self.shared);
        let (answer, step) = engine::execute(call, step)?;
        if step.image.entries.is_empty() {
            images.by_tag.remove(tag);
        } else if step.image.changed {
            images.by_tag.insert(tag.to_owned(), step.image);
        }
        images.sweep(now_us);
        drop(images);
        for (channel, message) in step.outbox {
            self.shared.send(&channel, &message);
        }
        Ok(answer)
    }

    pub(super) async fn listen(&self, channel: &str, sink: &Sink) {
        let (sender, mut messages) = mpsc::channel(QUEUE);
        let overflowed = AtomicBool::new(false);
        let registered = Registered {
            shared: &self.shared,
            channel: channel.as_bytes(),
            mailbox: Arc::new(Mailbox { sender, overflowed }),
        };
        hold(&self.shared.listeners)
            .entry(channel.as_bytes().to_vec())
            .or_default()
            .push(Arc::clone(&registered.mailbox));
        sink(Event::Ready);
        while let Some(message) = messages.recv().await {
            sink(Event::Message(message));
            if registered.mailbox.overflowed.swap(false, Ordering::Relaxed) {
                sink(Event::Gap);
                sink(Event::Ready);
            }
        }
    }

    pub(super) fn scan(&self, pattern: &str, only_locks: bool) -> Vec<Listed> {
        let now_us = self.now_us();
        let images = hold(&self.shared.images);
        let alive = images.by_tag.values().cloned().map(|mut image| {
            image.settle(now_us);
            image
        });
        let keys = alive.flat_map(|image| image.listed(pattern, only_locks));
        keys.map(|key| (key, None)).collect()
    }

    pub(super) fn describe(&self) -> String {
        if self.name.is_empty() {
            "memory".to_owned()
        } else {
            format!("memory `{}`", self.name)
        }
    }
}

impl Images {
    /// Drops expired keys once in as many calls as there are images, to keep the cost of a call low.
    fn sweep(&mut self, now_us: u64) {
        self.calls_since_sweep += 1;
        if self.calls_since_sweep > self.by_tag.len() + 64 {
            self.calls_since_sweep = 0;
            self.by_tag
                .retain(|_, image| image.entries.iter().any(|entry| !entry.is_over(now_us)));
        }
    }
}

impl MemoryState {
    fn send(&self, channel: &[u8], message: &[u8]) {
        for mailbox in hold(&self.listeners).get(channel).into_iter().flatten() {
            if mailbox.sender.try_send(message.to_vec()).is_err() {
                mailbox.overflowed.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl Surroundings for MemoryState {
    fn present(&self, channel: &[u8]) -> bool {
        hold(&self.listeners).contains_key(channel)
    }

    /// False: processes and what they hold in memory end together.
    fn has_session(&self, _client: &str) -> bool {
        false
    }
}

/// A listener's entry, removed when it is dropped.
struct Registered<'a> {
    shared: &'a MemoryState,
    channel: &'a [u8],
    mailbox: Arc<Mailbox>,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        let mut listeners = hold(&self.shared.listeners);
        if let Some(mailboxes) = listeners.get_mut(self.channel) {
            mailboxes.retain(|mailbox| !Arc::ptr_eq(mailbox, &self.mailbox));
            if mailboxes.is_empty() {
                listeners.remove(self.channel);
            }
        }
    }
}
