//! The moment at which a lease is lost.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::task::Waker;

use crate::base::error::Lost;

/// Set once, wakes everybody who waits for it.
#[derive(Debug, Default)]
pub(crate) struct LossSignal {
    lost: OnceLock<Lost>,
    wakers: Mutex<Wakers>,
}

#[derive(Debug, Default)]
pub(super) struct Wakers {
    pub(super) next: u64,
    /// A map that is empty takes no room, and most leases have nobody here.
    pub(super) waiting: BTreeMap<u64, Waker>,
}

impl LossSignal {
    pub(crate) fn get(&self) -> Option<&Lost> {
        self.lost.get()
    }

    /// The first reason stays.
    pub(crate) fn set(&self, lost: Lost) {
        let first = self.lost.set(lost).is_ok();
        if first {
            let waiting = std::mem::take(&mut self.lock().waiting);
            waiting.into_values().for_each(Waker::wake);
        }
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, Wakers> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
