//! Whether this client's user has the rights that a hand-over needs: to count subscribers, and to publish.
//!
//! Without them, the releases of clients with the same user wake no waiter, although each client may subscribe. The
//! client asks the store once for each connection, in the background, and only when a waiter has waited for a while.
//! Where locks change hands quickly it never asks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The known rights, for plain channels and for sharded ones.
#[derive(Debug)]
pub(crate) struct Rights([KnownRights; 2]);

#[derive(Debug)]
pub(crate) struct KnownRights {
    pub(crate) refused: AtomicBool,
    /// The number of the connections over which the store last replied.
    pub(crate) told_in: AtomicU64,
    pub(crate) asking: AtomicBool,
}

impl Default for Rights {
    fn default() -> Self {
        let known = || KnownRights {
            refused: AtomicBool::new(false),
            told_in: AtomicU64::new(u64::MAX),
            asking: AtomicBool::new(false),
        };
        Rights([known(), known()])
    }
}

impl Rights {
    pub(crate) fn of(&self, channel: &str) -> &KnownRights {
        &self.0[usize::from(channel.ends_with(":s"))]
    }
}

impl KnownRights {
    /// Notes the store's reply, if there is one. True for a refusal that is new.
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
