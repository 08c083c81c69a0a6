//! What every connection through the proxy has in common: the faults of this moment, and what has passed.

use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::fault::Faults;

#[derive(Debug)]
pub(super) struct Traffic {
    /// The port that new connections lead to.
    pub(super) server: AtomicU16,
    faults: Mutex<Faults>,
    /// Notified when a fault changes or a link closes: a link may hold bytes back.
    pub(super) changed: Condvar,
    /// Requests that were delivered a second time and answered.
    pub(super) duplicated: AtomicU64,
    /// Pieces that are held back or delayed now.
    pub(super) held: AtomicUsize,
    /// Bytes that came through, for each way.
    pub(super) passed: [AtomicU64; 2],
}

impl Traffic {
    pub(super) fn to(server: u16) -> Traffic {
        Traffic {
            server: AtomicU16::new(server),
            faults: Mutex::default(),
            changed: Condvar::new(),
            duplicated: AtomicU64::new(0),
            held: AtomicUsize::new(0),
            passed: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    pub(super) fn server(&self) -> u16 {
        self.server.load(Ordering::SeqCst)
    }

    pub(super) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
