//! Whether this client's user may do what a hand-over takes: ask who listens, and publish. Waiters with the same user
//! cannot be woken by each other's releases otherwise, although each of them may subscribe.
//!
//! The store is asked once for each connection, in the background, and only when one waiter has waited for a while: where
//! locks change hands quickly nothing is asked at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::acquire::Acquisition;
use super::notifier::Notifier;
use crate::base::token::Token;
use crate::quorum::executor::Executor;

/// Shorter than the longest interval of a waiter that cannot be woken.
const WAITED: Duration = Duration::from_millis(250);

/// What is known, for plain channels and for those of a slot.
#[derive(Debug)]
pub(crate) struct Rights([Known; 2]);

#[derive(Debug)]
struct Known {
    refused: AtomicBool,
    /// The store has said so over these connections.
    told_in: AtomicU64,
    /// A task is about to ask.
    asking: AtomicBool,
}

impl Default for Rights {
    fn default() -> Self {
        let known = || Known {
            refused: AtomicBool::new(false),
            told_in: AtomicU64::new(u64::MAX),
            asking: AtomicBool::new(false),
        };
        Rights([known(), known()])
    }
}

impl Rights {
    /// Of channels like this one.
    fn of(&self, channel: &str) -> &Known {
        &self.0[usize::from(channel.ends_with(":s"))]
    }
}

impl Known {
    /// What the store has said, if it has. True when that is a refusal that is news.
    fn is_told(&self, allowed: Option<bool>, asked_in: u64) -> bool {
        let mut is_news = false;
        if let Some(allowed) = allowed {
            is_news = !self.refused.swap(!allowed, Ordering::SeqCst) && !allowed;
            self.told_in.store(asked_in, Ordering::SeqCst);
        }
        self.asking.store(false, Ordering::SeqCst);
        is_news
    }
}

/// Counts the connections of requests and of messages: over a new one the user may be another.
fn connections(store: &Executor, wakeups: &Notifier) -> u64 {
    wakeups.subscription() + store.epoch().unwrap_or_default()
}

impl Acquisition<'_> {
    /// Whether a release can wake the waiter of this token, which listens to `channel`. True until the store has said
    /// otherwise.
    pub(super) fn can_be_woken(&self, token: &Token, channel: &str) -> bool {
        if channel.is_empty() {
            return false;
        }
        if !self.inner.store.has_users() {
            return true;
        }
        let background = self.background;
        let known = background.rights.of(channel);
        let present = connections(&background.store, &background.wakeups);
        let is_new = known.told_in.load(Ordering::Relaxed) != present;
        if is_new && !known.asking.swap(true, Ordering::SeqCst) {
            self.ask_for_rights(token, channel);
        }
        !known.refused.load(Ordering::Relaxed)
    }

    /// In the background, if the waiter is still there by then.
    fn ask_for_rights(&self, token: &Token, channel: &str) {
        let background = self.background;
        let (rights, store) = (Arc::clone(&background.rights), background.store.clone());
        let wakeups = Arc::clone(&background.wakeups);
        let (token, channel) = (token.clone(), channel.to_owned());
        let within = self.inner.request_timeout(self.ttl);
        drop(background.handle.spawn(async move {
            tokio::time::sleep(WAITED).await;
            let known = rights.of(&channel);
            let asked_in = connections(&store, &wakeups);
            let allowed = if wakeups.waits(&token) {
                store.may_wake(&channel, within).await
            } else {
                None
            };
            if known.is_told(allowed, asked_in) {
                tracing::warn!(
                    channel,
                    "the user may not publish, or not ask who listens: waiters are not woken and poll"
                );
                wakeups.all_look();
            }
        }));
    }
}
