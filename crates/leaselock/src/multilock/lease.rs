//! Several leases as one, to hold.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::view::MultiLeaseView;
use crate::base::clock::Moment;
use crate::base::error::{ExtendError, MultiReleaseError};
use crate::base::join::join_all;
use crate::engine::guard::lease::Lease;
use crate::engine::guard::lease::release_all::release_all;

/// The leases of several names, held as one. The client renews each of them in the background.
///
/// It has the methods of [`MultiLeaseView`], to which it dereferences. Each name has a fencing token of its own.
///
/// **Dropping it releases every name soon, not now**, as dropping a [`Lease`] does.
#[must_use = "dropping a lease gives it up"]
#[clippy::has_significant_drop]
pub struct MultiLease {
    /// In the order in which the caller gave the names.
    leases: Vec<Lease>,
    /// True if one request acquired all names, so that one request can release them.
    together: bool,
    view: MultiLeaseView,
}

impl MultiLease {
    pub(super) fn new(leases: Vec<Lease>, together: bool) -> Self {
        let view = MultiLeaseView {
            leases: leases.iter().map(Lease::view).collect(),
        };
        MultiLease {
            leases,
            together,
            view,
        }
    }

    /// Returns a view for other tasks: it can read, but not extend or release, and keeps no lease alive.
    pub fn view(&self) -> MultiLeaseView {
        self.view.clone()
    }

    /// The lease of each name, in the order in which the caller gave the names.
    pub fn leases(&self) -> &[Lease] {
        &self.leases
    }

    /// The ttl that each renewal asks for.
    pub fn ttl(&self) -> Duration {
        self.leases.first().map(Lease::ttl).unwrap_or_default()
    }

    /// Calls `hook` with the earliest deadline at once, and after each renewal on the client's own thread.
    ///
    /// The hook must not block. See [`Lease::on_deadline`].
    pub fn on_deadline(&self, hook: impl Fn(Moment) + Send + Sync + 'static) {
        let hook = Arc::new(hook);
        for lease in &self.leases {
            // A lease stores its hook, so the hook must not keep the lease.
            let (hook, leases) = (Arc::clone(&hook), Arc::downgrade(&self.view.leases));
            lease.on_deadline(move |_| {
                if let Some(leases) = leases.upgrade() {
                    hook(MultiLeaseView { leases }.deadline());
                }
            });
        }
    }

    /// Extends every lease to `ttl` from now. Later renewals use the same `ttl`.
    ///
    /// It never shortens a deadline, and never revives a lost lease.
    ///
    /// # Waiting
    /// One request for each name, all at once, within the request timeout.
    ///
    /// # Cancel safety
    /// When dropped, some extensions may have happened; each lease is held until its old deadline at least.
    ///
    /// # Errors
    /// [`ExtendError`] of one name, which it says; a loss before any other error. The other names may be extended.
    pub async fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        let extended = join_all(self.leases.iter().map(|lease| lease.extend(ttl))).await;
        let mut errors: Vec<_> = extended.into_iter().filter_map(Result::err).collect();
        errors.sort_by_key(|error| !matches!(error, ExtendError::Lost(_)));
        errors.into_iter().next().map_or(Ok(()), Err)
    }

    /// Releases every name, and returns whether all were still held.
    ///
    /// Each name goes to its next waiter, as with [`Lease::release`].
    ///
    /// # Waiting
    /// Within three request timeouts. One request for all names where one request acquired them and none has waiters;
    /// otherwise one for each name, all at once.
    ///
    /// # Cancel safety
    /// When dropped, the releases go on in the background.
    ///
    /// # Errors
    /// [`MultiReleaseError`] has the error of each name that was not confirmed as released. Nothing is held after it.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// # let lease = client.mutex("from").along_with(["to"]).acquire().await?;
    /// if let Err(error) = lease.release().await {
    ///     for one in error.errors() {
    ///         println!("another client may have held the lock meanwhile: {one}");
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn release(self) -> Result<(), MultiReleaseError> {
        let MultiLease {
            leases, together, ..
        } = self;
        let released = if together {
            Box::pin(release_all(leases)).await
        } else {
            join_all(leases.into_iter().map(Lease::release)).await
        };
        MultiReleaseError::of(released)
    }
}

impl Deref for MultiLease {
    type Target = MultiLeaseView;

    fn deref(&self) -> &MultiLeaseView {
        &self.view
    }
}

impl fmt::Debug for MultiLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.leases).finish()
    }
}
