//! The read-write lock without async.

use std::time::Duration;

use super::lease::Lease;
use super::wait::wait;
use crate::base::error::AcquireError;
use crate::base::name::Name;
use crate::client::options::setters;

/// A [`RwLock`](crate::RwLock) whose calls block the calling thread. Readers and writers get a [`Lease`].
#[derive(Debug, Clone)]
#[must_use = "a read-write lock does nothing until it is acquired"]
pub struct RwLock {
    pub(super) client: crate::Client,
    pub(super) lock: crate::RwLock,
}

impl RwLock {
    setters!(lock.named.options);

    fn about(&self) -> Name {
        self.lock.named.shown_name()
    }

    acquiring! { lock, "RwLock":
        read();
        read_within(limit: Duration);
        write();
        write_within(limit: Duration);
    }

    trying! { lock, "RwLock":
        try_read();
        try_write();
    }
}
