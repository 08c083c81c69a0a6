//! Whether this client's user may do what a hand-over takes: ask who listens, and publish. Waiters with the same user
//! cannot be woken by each other's releases otherwise, although each of them may subscribe.
//!
//! The store is asked once for each connection, in the background, and only when one waiter has waited for a while: where
//! locks change hands quickly nothing is asked at all.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What is known, for plain channels and for those of a slot.
#[derive(Debug)]
pub(crate) struct Rights([Known; 2]);

#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) refused: AtomicBool,
    /// The store has said so over these connections.
    pub(crate) told_in: AtomicU64,
    /// A task is about to ask.
    pub(crate) asking: AtomicBool,
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
    pub(crate) fn of(&self, channel: &str) -> &Known {
        &self.0[usize::from(channel.ends_with(":s"))]
    }
}

impl Known {
    /// What the store has said, if it has. True when that is a refusal that is news.
    pub(crate) fn is_told(&self, allowed: Option<bool>, asked_in: u64) -> bool {
        let mut is_news = false;
        if let Some(allowed) = allowed {
            is_news = !self.refused.swap(!allowed, Ordering::SeqCst) && !allowed;
            self.told_in.store(asked_in, Ordering::SeqCst);
        }
        self.asking.store(false, Ordering::SeqCst);
        is_news
    }
}
