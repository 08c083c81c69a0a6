//! What follows a run that did not end.

/// Whether another run may begin after one that did not end.
///
/// A run crashes when its process dies, when it loses its lease, and when its future is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnCrash {
    /// Another run may begin: the work is done at least once.
    Again,
    /// No other run begins, and who asks is told of the crash. Together with
    /// [`keep_failures`](crate::once::Once::keep_failures) the work of a [`Once`](crate::once::Once) is done at most once: a
    /// body that returns an error says that it may be done again.
    Refuse,
}
