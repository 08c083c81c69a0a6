//! The signal that a lease is lost.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};
use std::task::Waker;

use crate::base::error::Lost;
use crate::base::hold;

/// A signal that is set once and wakes all tasks that wait for it.
#[derive(Debug, Default)]
pub(crate) struct LossSignal {
    lost: OnceLock<Lost>,
    wakers: Mutex<Wakers>,
}

#[derive(Debug, Default)]
pub(super) struct Wakers {
    pub(super) next: u64,
    /// Most leases have no waiting task, and an empty map takes no memory.
    pub(super) waiting: BTreeMap<u64, Waker>,
}

impl LossSignal {
    pub(crate) fn get(&self) -> Option<&Lost> {
        self.lost.get()
    }

    /// Sets the loss; the first one stays.
    pub(crate) fn set(&self, lost: Lost) {
        let first = self.lost.set(lost).is_ok();
        if first {
            let waiting = std::mem::take(&mut self.lock().waiting);
            waiting.into_values().for_each(Waker::wake);
        }
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, Wakers> {
        hold(&self.wakers)
    }
}
