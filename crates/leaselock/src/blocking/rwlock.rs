//! The read-write lock without async.

use std::time::Duration;

use super::{Client, Lease, wait};
use crate::base::error::AcquireError;
use crate::base::name::Name;
use crate::client::options::setters;

/// A [`RwLock`](crate::RwLock) whose calls block the calling thread. Readers and writers get a [`Lease`].
#[derive(Debug, Clone)]
#[must_use = "a read-write lock does nothing until it is acquired"]
pub struct RwLock {
    client: crate::Client,
    lock: crate::RwLock,
}

impl Client {
    /// Returns the read-write lock of this name.
    ///
    /// ```
    /// # let client = leaselock::blocking::Client::connect("mem:")?;
    /// let lock = client.rwlock("config");
    /// let (one, other) = (lock.read()?, lock.read()?);
    /// assert!(lock.try_write()?.is_none());
    /// # one.release()?;
    /// # other.release()?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn rwlock(&self, name: impl Into<String>) -> RwLock {
        RwLock {
            client: self.client.clone(),
            lock: self.client.rwlock(name),
        }
    }
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
