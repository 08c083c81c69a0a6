//! The mutex without async.

use std::time::Duration;

use leaselock_fence::Name;

use super::lease::Lease;
use super::multilock::MultiLock;
use super::wait::{shown_name, wait};
use crate::base::error::{AcquireError, InspectError};
use crate::client::inspection::Holder;
use crate::client::options::setters;
use crate::client::run::{RunError, RunResult};
use crate::engine::guard::lease::LeaseView;
use crate::interop::preset::Preset;

/// A [`Mutex`](crate::Mutex) whose calls block the calling thread.
#[derive(Debug, Clone)]
#[must_use = "a mutex does nothing until it is acquired"]
pub struct Mutex {
    pub(super) client: crate::Client,
    pub(super) mutex: crate::Mutex,
}

impl Mutex {
    setters!(mutex.named.options);

    /// As [`Mutex::preset`](crate::Mutex::preset).
    pub fn preset(mut self, preset: Preset) -> Self {
        self.mutex = self.mutex.preset(preset);
        self
    }

    fn about(&self) -> Name {
        shown_name(&self.mutex.named.name)
    }

    acquiring! { mutex, "Mutex", Lease:
        acquire();
        acquire_within(limit: Duration);
    }

    trying! { mutex, "Mutex", Lease:
        try_acquire();
    }

    waiting! { mutex, "Mutex":
        /// [`InspectError`]: it is not known whether any client holds it.
        holder() -> Result<Option<Holder>, InspectError>;
    }

    /// As [`Mutex::along_with`](crate::Mutex::along_with).
    pub fn along_with(self, names: impl IntoIterator<Item = impl Into<String>>) -> MultiLock {
        let about = self.about();
        MultiLock::new(self.client, about, self.mutex.along_with(names))
    }

    /// Runs `body` under a lease and releases it, also on panic.
    ///
    /// A thread cannot be stopped from outside. So a long body calls [`LeaseView::is_held`] or [`LossWatch::check`](crate::LossWatch::check) from
    /// time to time, and the client reports a loss when the body ends.
    ///
    /// # Errors
    /// [`RunError::Acquire`]: the body did not run. [`RunError::Lost`]: the lease was gone before the body ended.
    pub fn run<T>(&self, body: impl FnOnce(&LeaseView) -> T) -> Result<RunResult<T>, RunError> {
        let lease = self.acquire()?;
        let value = body(&lease.view());
        lease.lost().check()?;
        let released = lease.release();
        Ok(RunResult { value, released })
    }
}
