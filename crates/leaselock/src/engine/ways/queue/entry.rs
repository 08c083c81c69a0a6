//! A queue entry, with what its waiter knows of it.

use super::far::Far;
use crate::engine::guard::lease::Lease;
use crate::engine::services::{CleanupGuard, ClockSample, Registration};
use crate::engine::ways::ask::Ask;
use crate::engine::ways::key_watch::Foreign;

/// A queue entry, or what may be one, with what its waiter knows of it. Another task can go on with it.
#[derive(Debug)]
pub(crate) struct QueueEntry {
    pub(crate) registration: Registration,
    pub(super) guard: CleanupGuard,
    /// True if an answer said that the entry is in the queue.
    pub(super) in_queue: bool,
    /// The clocks at the latest such answer.
    pub(super) reading: Option<ClockSample>,
    /// True if a request had no usable reply: it may have made the entry, or been granted.
    pub(super) ambiguous: bool,
    /// What to do about a holder of another library.
    pub(super) foreign: Foreign,
    /// The entry is far from the head of a queue in a folder.
    pub(super) far: Option<Far>,
}

impl QueueEntry {
    /// Registers for wake-ups. Nothing is sent.
    pub(crate) fn new(ask: &Ask<'_>, guard: CleanupGuard) -> Self {
        QueueEntry {
            registration: ask.background.notifier.register(&ask.token),
            guard,
            in_queue: false,
            reading: None,
            ambiguous: false,
            foreign: Foreign::default(),
            far: None,
        }
    }

    /// True if something of this token may be on the store, whatever the latest request came to.
    pub(super) fn may_exist(&self) -> bool {
        self.in_queue || self.ambiguous
    }

    /// The entry is granted. From here on the lease has an owner, and only late requests may need a cleanup.
    pub(crate) fn granted(self, mut lease: Lease) -> Lease {
        if self.ambiguous {
            lease.expect_late_requests();
        }
        if self.guard.settle() {
            lease.set_queued();
        }
        lease
    }
}
