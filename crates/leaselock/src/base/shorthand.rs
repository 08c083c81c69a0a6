//! What std says in more words: the lock of a mutex, and `Debug` of what holds secrets, or more than a reader wants.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. It ignores poisoning, so that the panic of one thread does not become that of many.
pub(crate) fn hold<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Implements `Debug` as a text, or as the fields that are shown; `it` is the value.
///
/// `debug_as!(Endpoint, it => "Endpoint({it})")` is a text, and `debug_as!(Owner, it => { label: it.label() })` shows one
/// field, and that there are others.
macro_rules! debug_as {
    ($Type:ty, $it:ident => { $($field:ident: $value:expr),* }) => {
        impl std::fmt::Debug for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $it = self;
                let mut shown = f.debug_struct(stringify!($Type));
                $(shown.field(stringify!($field), &$value);)*
                shown.finish_non_exhaustive()
            }
        }
    };
    ($Type:ty, $it:ident => $($text:tt)+) => {
        impl std::fmt::Debug for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $it = self;
                write!(f, $($text)+)
            }
        }
    };
}
pub(crate) use debug_as;
