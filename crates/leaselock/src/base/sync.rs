//! Mutexes that are held for a few instructions.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. It ignores poisoning, so that the panic of one thread does not become that of many.
pub(crate) fn hold<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
