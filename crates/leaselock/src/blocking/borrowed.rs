//! A borrowed lease without async.

use super::wait::wait;

/// A [`BorrowedLease`](crate::detached::BorrowedLease) whose calls block the calling thread. Dropping it ends the renewal
/// and releases nothing.
#[derive(Debug)]
#[must_use = "a borrowed lease that is dropped is not renewed any more"]
pub struct BorrowedLease {
    client: crate::Client,
    lease: crate::detached::BorrowedLease,
}

impl BorrowedLease {
    pub(super) fn new(client: &crate::Client, lease: crate::detached::BorrowedLease) -> Self {
        let client = client.clone();
        BorrowedLease { client, lease }
    }

    holding!(lease);
}
