//! The semaphore's handle, and the guard of its permits.

use std::ops::Deref;
use std::time::Duration;

use super::kind::PERMITS;
use super::resize::resize;
use crate::base::error::{AcquireError, InspectError, InvalidInput, ReleaseError};
use crate::base::name::Name;
use crate::client::Client;
use crate::client::named::Named;
use crate::client::options::setters;
use crate::engine::lease::Lease;

/// A semaphore on one name: so many permits, which come back when their holder releases them or dies.
///
/// A permit is a lease: it is renewed in the background, and it comes back at its own end when its process crashes. All
/// wait in one queue in strict order: a request for many permits is not overtaken by requests for few. The
/// [`Mutex`](crate::Mutex) of the same name waits until all permits are back and keeps others out meanwhile, which is how
/// to drain a pool.
///
/// How many permits there are comes with each request, and the latest request decides, so a new number needs no step of
/// its own. [`set_permits`](Semaphore::set_permits) pins it. Fewer permits take nothing away: nothing is granted until
/// enough are back.
///
/// Each grant has a [`fence`](Lease::fence) of its own. With several holders "the larger number wins" is no rule, so a
/// resource cannot refuse a stale permit by its number.
///
/// Not on a [`Quorum`](crate::Quorum): two of three nodes can each admit two of three holders, so a count that every
/// majority respects is exceeded by all together.
///
/// A `Semaphore` has no state of its own: clone it, share it, keep it. Its setters take and return the value.
///
/// # Examples
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leaselock::Client::connect("mem:")?;
/// let pool = client.semaphore("connections", 3);
/// let one = pool.acquire().await?;
/// let two = pool.acquire_many(2).await?;
/// assert!(pool.try_acquire().await?.is_none());
/// two.release().await?;
/// # one.release().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a semaphore does nothing until it is acquired"]
pub struct Semaphore {
    named: Named,
    permits: u32,
}

/// Permits that are held. Dropping it gives them back in the background.
///
/// It has the methods of [`Lease`], to which it dereferences.
#[derive(Debug)]
#[must_use = "a permit that is dropped is given back"]
pub struct Permit {
    lease: Lease,
    count: u32,
}

impl Client {
    /// Returns the semaphore of this name with so many permits, and with the client's default options. The first
    /// operation reports a bad name.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::connect("mem:")?;
    /// let permit = client.semaphore("connections", 10).acquire().await?;
    /// # permit.release().await?;
    /// # Ok(()) }
    /// ```
    pub fn semaphore(&self, name: impl Into<String>, permits: u32) -> Semaphore {
        Semaphore {
            named: Named::new(&self.state, &PERMITS, name.into()),
            permits,
        }
    }
}

impl Semaphore {
    setters!(named.options);

    /// Returns the name; `None` for a malformed one, which the first operation reports.
    pub fn name(&self) -> Option<&str> {
        self.named.name.as_ref().ok().map(Name::as_str)
    }

    /// Checks now what the first operation would refuse: the name, an option, or a number of permits that is zero.
    ///
    /// # Errors
    /// [`InvalidInput`] says what would be valid. Nothing is sent.
    pub fn validate(self) -> Result<Self, InvalidInput> {
        self.asking_for(1)?.validate()?;
        Ok(self)
    }

    /// Acquires one permit, and waits as the options say. See [`acquire_many`](Semaphore::acquire_many).
    ///
    /// # Errors
    /// [`AcquireError`]: every variant says what it means for what you hold.
    pub async fn acquire(&self) -> Result<Permit, AcquireError> {
        self.acquire_many(1).await
    }

    /// Acquires so many permits as one, and waits as the options say until they are free.
    ///
    /// # Waiting
    /// In the queue, in strict order within a priority: nothing behind this request is granted before it. A release and
    /// the grants that it makes possible are one step on the store.
    ///
    /// # Cancel safety
    /// Safe: the request of a dropped future leaves the queue in the background, and a grant that the caller no longer
    /// awaits is released. The position in the queue is lost.
    ///
    /// # Errors
    /// [`AcquireError::TooMany`] when there are not so many permits, also while it waits; every variant says what it
    /// means for what you hold.
    pub async fn acquire_many(&self, count: u32) -> Result<Permit, AcquireError> {
        let lease = self.asking_for(count)?.acquire().await?;
        Ok(Permit { lease, count })
    }

    /// Acquires one permit if it is free and no waiter is ahead; `Ok(None)` when it is busy.
    ///
    /// # Errors
    /// As [`try_acquire_many`](Semaphore::try_acquire_many).
    pub async fn try_acquire(&self) -> Result<Option<Permit>, AcquireError> {
        self.try_acquire_many(1).await
    }

    /// Acquires so many permits as one if they are free and no waiter is ahead; `Ok(None)` when it is busy.
    ///
    /// # Waiting
    /// One request, within the request timeout. Never joins the queue.
    ///
    /// # Cancel safety
    /// Safe: a grant that the caller no longer awaits is released in the background.
    ///
    /// # Errors
    /// [`AcquireError`]; busy is not an error, and more than there are is [`TooMany`](AcquireError::TooMany).
    pub async fn try_acquire_many(&self, count: u32) -> Result<Option<Permit>, AcquireError> {
        let lease = self.asking_for(count)?.try_acquire().await?;
        Ok(lease.map(|lease| Permit { lease, count }))
    }

    /// Acquires one permit, and waits in the queue for at most `limit`.
    ///
    /// # Errors
    /// As [`acquire_many_within`](Semaphore::acquire_many_within).
    pub async fn acquire_within(&self, limit: Duration) -> Result<Permit, AcquireError> {
        self.acquire_many_within(1, limit).await
    }

    /// Acquires so many permits as one, and waits in the queue for at most `limit`.
    ///
    /// # Waiting
    /// Returns within `limit` and one request timeout, whatever the network does.
    ///
    /// # Cancel safety
    /// As [`acquire_many`](Semaphore::acquire_many).
    ///
    /// # Errors
    /// [`AcquireError::StillBusy`] when too few were free to the end; this attempt has no queue entry then.
    pub async fn acquire_many_within(
        &self,
        count: u32,
        limit: Duration,
    ) -> Result<Permit, AcquireError> {
        let lease = self.asking_for(count)?.acquire_within(limit).await?;
        Ok(Permit { lease, count })
    }

    /// Says how many permits there are, for all clients, until [`unset_permits`](Semaphore::unset_permits) or until the
    /// semaphore was unused for seven days. Returns how many are used at the moment.
    ///
    /// More permits are granted at once; fewer take nothing away.
    ///
    /// # Waiting
    /// One request, within the request timeout.
    ///
    /// # Cancel safety
    /// When dropped, the number may have changed.
    ///
    /// # Errors
    /// [`InspectError`]; after an error of the store the number may have changed.
    pub async fn set_permits(&self, permits: u32) -> Result<u32, InspectError> {
        at_least_one(permits)?;
        resize(&self.named, permits).await
    }

    /// Leaves it to the requests again how many permits there are. Returns how many are used at the moment.
    ///
    /// # Waiting
    /// One request, within the request timeout.
    ///
    /// # Cancel safety
    /// When dropped, it may have happened.
    ///
    /// # Errors
    /// As [`set_permits`](Semaphore::set_permits).
    pub async fn unset_permits(&self) -> Result<u32, InspectError> {
        resize(&self.named, 0).await
    }

    /// The request for so many permits.
    fn asking_for(&self, count: u32) -> Result<Named, InvalidInput> {
        at_least_one(count)?;
        at_least_one(self.permits)?;
        let mode = format!("w{count} {}", self.permits);
        Ok(self.named.clone().with_mode(mode))
    }
}

fn at_least_one(permits: u32) -> Result<(), InvalidInput> {
    if permits == 0 {
        let text = "a semaphore has at least one permit, and so has a request: 0 is neither";
        return Err(InvalidInput::new(text.to_owned()));
    }
    Ok(())
}

impl Permit {
    /// How many permits are held.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Gives the permits back; the waiters that fit then are granted in the same step.
    ///
    /// # Waiting
    /// Within two request timeouts. If no reply arrives, the request is sent again; the same request twice does no
    /// harm.
    ///
    /// # Cancel safety
    /// When dropped, the release goes on in the background.
    ///
    /// # Errors
    /// [`ReleaseError`]: nothing is held after any of them. After `NotHeld`, others may have had the permits meanwhile.
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.lease.release().await
    }
}

impl Deref for Permit {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

/// The lease alone, for code that handles leases of every kind.
impl From<Permit> for Lease {
    fn from(held: Permit) -> Lease {
        held.lease
    }
}
