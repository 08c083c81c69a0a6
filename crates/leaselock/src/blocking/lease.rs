//! A lease without async.

use std::fmt;
use std::time::Duration;

use super::wait::wait;
use crate::base::error::{ExtendError, Lost, ReleaseError};
use crate::base::fence::Fence;
use crate::base::name::Name;
use crate::client::detached::Handle;
use crate::engine::lease::loss::LossWatch;
use crate::engine::lease::{LeaseState, LeaseView};

/// A [`Lease`](crate::Lease) whose calls block the calling thread. Dropping it releases it in the background.
#[must_use = "dropping a lease gives it up"]
#[clippy::has_significant_drop]
pub struct Lease {
    client: crate::Client,
    lease: crate::Lease,
}

impl Lease {
    pub(super) fn new(client: &crate::Client, lease: impl Into<crate::Lease>) -> Self {
        Lease {
            client: client.clone(),
            lease: lease.into(),
        }
    }

    fn about(&self) -> Name {
        self.lease.name().clone()
    }

    forwarded! { lease:
        /// Returns the name that the lease protects.
        name -> &Name;
        /// Returns the fencing token; `None` without fencing.
        fence -> Option<Fence>;
        /// As [`Lease::retries`](crate::Lease::retries).
        retries -> u32;
        /// Returns the ttl that each renewal asks for.
        ttl -> Duration;
        /// Returns how long you may still act, unless the lease is extended.
        remaining -> Duration;
        /// Returns true if you may act now.
        is_held -> bool;
        /// Returns whether the lease is held, suspect or lost.
        state -> LeaseState;
        /// Returns a value with which other threads check whether the lease is lost.
        lost -> LossWatch;
        /// Returns a view for other threads, which can read but not extend or release.
        view -> LeaseView;
    }

    waiting! { lease, "Lease":
        /// [`ExtendError`]: every variant says what it means for the lease.
        extend(ttl: Duration) -> Result<(), ExtendError>;
    }

    /// As [`Lease::detach`](crate::Lease::detach).
    ///
    /// # Errors
    /// [`ExtendError`]; the client then gives the lease up.
    pub fn detach(self) -> Result<Handle, ExtendError> {
        wait(&self.client, self.about(), self.lease.detach())
    }

    /// As [`Lease::release`](crate::Lease::release).
    ///
    /// # Errors
    /// [`ReleaseError`]: nothing is held after any of them.
    pub fn release(self) -> Result<(), ReleaseError> {
        wait(&self.client, self.about(), self.lease.release())
    }

    /// Waits for at most `limit` for the lease to end; `None` when it is still held then.
    pub fn lost_within(&self, limit: Duration) -> Option<Lost> {
        let Ok(background) = self.client.engine().background() else {
            return self.lease.lost().check().err();
        };
        background.handle.clone().block_on(async {
            tokio::select! {
                lost = self.lease.lost() => Some(lost),
                () = tokio::time::sleep(limit) => self.lease.lost().check().err(),
            }
        })
    }

    /// Calls `callback` once, on the client's own thread, when the lease ends: also by a release.
    ///
    /// The callback must not block.
    pub fn on_lost(&self, callback: impl FnOnce(Lost) + Send + 'static) {
        let lost = self.lease.lost();
        if let Ok(background) = self.client.engine().background() {
            drop(background.handle.spawn(async move { callback(lost.await) }));
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lease.fmt(f)
    }
}
