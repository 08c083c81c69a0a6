//! The semaphore without async.

use std::time::Duration;

use super::{Client, Lease, wait};
use crate::base::error::{AcquireError, InspectError};
use crate::base::name::Name;
use crate::client::options::setters;

/// A [`Semaphore`](crate::Semaphore) whose calls block the calling thread. Permits are a [`Lease`].
#[derive(Debug, Clone)]
#[must_use = "a semaphore does nothing until it is acquired"]
pub struct Semaphore {
    client: crate::Client,
    semaphore: crate::Semaphore,
}

impl Client {
    /// Returns the semaphore of this name with this number of permits.
    ///
    /// ```
    /// # let client = leaselock::blocking::Client::connect("mem:")?;
    /// let pool = client.semaphore("connections", 3);
    /// let two = pool.acquire_many(2)?;
    /// assert!(pool.try_acquire_many(2)?.is_none());
    /// # two.release()?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn semaphore(&self, name: impl Into<String>, permits: u32) -> Semaphore {
        Semaphore {
            client: self.client.clone(),
            semaphore: self.client.semaphore(name, permits),
        }
    }
}

impl Semaphore {
    setters!(semaphore.named.options);

    fn about(&self) -> Name {
        self.semaphore.named.shown_name()
    }

    acquiring! { semaphore, "Semaphore":
        acquire();
        acquire_many(count: u32);
        acquire_within(limit: Duration);
        acquire_many_within(count: u32, limit: Duration);
    }

    trying! { semaphore, "Semaphore":
        try_acquire();
        try_acquire_many(count: u32);
    }

    waiting! { semaphore, "Semaphore":
        /// [`InspectError`]: it is not known whether the number was set.
        set_permits(permits: u32) -> Result<u32, InspectError>;
        /// [`InspectError`]: it is not known whether the number is still pinned.
        unset_permits() -> Result<u32, InspectError>;
    }
}
