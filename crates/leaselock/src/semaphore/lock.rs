//! The semaphore's handle.

use std::future::Future;
use std::time::Duration;

use leaselock_fence::Fence;

use super::kind::PERMITS;
use crate::base::error::{AcquireError, InvalidInput};
use crate::client::Client;
use crate::client::named::Named;
use crate::client::options::setters;
use crate::client::run::{RunError, run_under};
use crate::engine::guard::lease::handle::modes;
use crate::engine::guard::lease::{Lease, LeaseView, both_tell};
use crate::engine::shared_state::noun::name_and_validate;

/// A semaphore on one name: a limited number of permits, for holders on any machine.
///
/// A permit is a lease: the client renews it in the background, and it ends at its ttl when its process crashes. All
/// requests wait in one queue in strict order: a request for many permits is not overtaken by requests for few. The
/// [`Mutex`](crate::Mutex) of the same name waits until all permits are back and keeps others out meanwhile. That drains
/// a pool.
///
/// Each request names the number of permits that the semaphore has, and the latest request decides. So a new number
/// needs no step of its own. [`set_permits`](Semaphore::set_permits) pins the number. A smaller number takes no permit
/// away: the store grants nothing until enough are back.
///
/// [`permits`](Semaphore::permits) reads how many are free, and [`Client::inspect`] shows the holders.
/// [`Client::break_lease`] takes permits away, those of one holder or of all.
///
/// Each grant has a [`fence`](crate::Lease::fence) of its own. Several hold at a time, so a resource cannot refuse a stale
/// permit by its number.
///
/// A holder of permits has no [`note`](Semaphore::note), which lies beside the name and is that of one holder, and no
/// other [`protocol`](Semaphore::protocol): such an option is refused.
///
/// Not on a majority of servers: each majority counts only the permits that it has granted itself, so all
/// majorities together would grant more than there are.
///
/// # Examples
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leaselock::Client::open("mem:")?;
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
    pub(crate) named: Named,
    pub(super) permits: u32,
}

impl Client {
    /// Returns the semaphore of this name with this number of permits, and with the client's default options.
    ///
    /// The first operation reports a bad name and a number of 0.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
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

    name_and_validate!(
        named,
        checked,
        "name",
        ": the name, an option, or a number of 0 permits."
    );

    fn checked(&self) -> Result<(), InvalidInput> {
        self.asking_for(1)?.validate()
    }

    /// Acquires one permit, and waits as the options say until it is free.
    ///
    /// Waiting, cancel safety and errors are those of [`Mutex::acquire`](crate::Mutex::acquire).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let permit = client.semaphore("connections", 10).acquire().await?;
    /// // the work; at most ten clients are here at a time
    /// permit.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn acquire(&self) -> Result<Lease<Permits>, AcquireError> {
        self.acquire_many(1).await
    }

    /// Acquires `count` permits in one step, and waits as the options say until they are free.
    ///
    /// Waiting and cancel safety are those of [`Mutex::acquire`](crate::Mutex::acquire). Nothing behind this
    /// request is granted before it.
    ///
    /// # Errors
    /// [`AcquireError::TooMany`] when the semaphore has fewer permits than `count`, also after the wait has begun. Every
    /// variant says what it means for what you hold.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let three = client.semaphore("connections", 10).acquire_many(3).await?; // all three or none
    /// assert_eq!(three.count(), 3);
    /// three.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn acquire_many(&self, count: u32) -> Result<Lease<Permits>, AcquireError> {
        let lease = self.asking_for(count)?.acquire().await?;
        Ok(lease.held_as(Permits { count }))
    }

    /// Acquires one permit if it is free and no waiter is ahead; `Ok(None)` when it is busy. See
    /// [`try_acquire_many`](Semaphore::try_acquire_many).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// match client.semaphore("connections", 10).try_acquire().await? {
    ///     Some(permit) => permit.release().await?, // the work goes before this
    ///     None => println!("all ten are held"),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<Lease<Permits>>, AcquireError> {
        self.try_acquire_many(1).await
    }

    /// Acquires `count` permits in one step if they are free and no waiter is ahead; `Ok(None)` when it is busy.
    ///
    /// One request, within the request timeout, which never joins the queue; otherwise as [`acquire_many`](Semaphore::acquire_many).
    ///
    /// # Errors
    /// [`AcquireError`]; busy is not an error. More permits than there are is [`TooMany`](AcquireError::TooMany).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let two = client.semaphore("connections", 10).try_acquire_many(2).await?;
    /// assert!(two.is_some());
    /// # Ok(()) }
    /// ```
    pub async fn try_acquire_many(
        &self,
        count: u32,
    ) -> Result<Option<Lease<Permits>>, AcquireError> {
        let lease = self.asking_for(count)?.try_acquire().await?;
        Ok(lease.map(|lease| lease.held_as(Permits { count })))
    }

    /// Acquires one permit, and waits in the queue for at most `limit`, as
    /// [`acquire_many_within`](Semaphore::acquire_many_within).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::AcquireError;
    /// use std::time::Duration;
    ///
    /// let pool = client.semaphore("connections", 10);
    /// match pool.acquire_within(Duration::from_secs(5)).await {
    ///     Ok(permit) => permit.release().await?,
    ///     Err(AcquireError::TimedOut { .. }) => println!("all ten were held for 5 s"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn acquire_within(&self, limit: Duration) -> Result<Lease<Permits>, AcquireError> {
        self.acquire_many_within(1, limit).await
    }

    /// Acquires `count` permits in one step, and waits in the queue for at most `limit`.
    ///
    /// Returns within `limit` and one request timeout; otherwise as [`acquire_many`](Semaphore::acquire_many).
    ///
    /// # Errors
    /// [`AcquireError::TimedOut`] when too few were free to the end; this attempt has no queue entry then.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let limit = std::time::Duration::from_secs(5);
    /// let two = client.semaphore("connections", 10).acquire_many_within(2, limit).await?;
    /// two.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn acquire_many_within(
        &self,
        count: u32,
        limit: Duration,
    ) -> Result<Lease<Permits>, AcquireError> {
        let lease = self.asking_for(count)?.acquire_within(limit).await?;
        Ok(lease.held_as(Permits { count }))
    }

    /// Runs `body` while one permit is held, as [`Mutex::run`](crate::Mutex::run).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// # async fn query() -> std::io::Result<u64> { Ok(42) }
    /// let rows = client.semaphore("connections", 10).run(|_| query()).await?;
    /// assert_eq!(rows, 42);
    /// # Ok(()) }
    /// ```
    pub async fn run<T, E, F, Fut>(&self, body: F) -> Result<T, RunError<E, T>>
    where
        F: FnOnce(LeaseView<Permits>) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        run_under(self.acquire().await?, body).await
    }

    /// Runs `body` while `count` permits are held, as [`Mutex::run`](crate::Mutex::run).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// # async fn load(_: u32) -> std::io::Result<()> { Ok(()) }
    /// let pool = client.semaphore("connections", 10);
    /// pool.run_many(3, |permits| load(permits.count())).await?;
    /// # Ok(()) }
    /// ```
    pub async fn run_many<T, E, F, Fut>(&self, count: u32, body: F) -> Result<T, RunError<E, T>>
    where
        F: FnOnce(LeaseView<Permits>) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        run_under(self.acquire_many(count).await?, body).await
    }

    fn asking_for(&self, count: u32) -> Result<Named, InvalidInput> {
        at_least_one(count)?;
        at_least_one(self.permits)?;
        let mode = format!("w{count} {}", self.permits);
        Ok(self.named.clone().with_mode(mode))
    }
}

pub(super) fn at_least_one(permits: u32) -> Result<(), InvalidInput> {
    if permits == 0 {
        let text =
            "0 permits: a semaphore has at least one permit, and a request asks for at least one";
        return Err(InvalidInput::new(text));
    }
    Ok(())
}

/// One or several permits of a [`Semaphore`], held together.
///
/// # Examples
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leaselock::Client::open("mem:")?;
/// use leaselock::Lease;
/// use leaselock::lease::Permits;
///
/// let permits: Lease<Permits> = client.semaphore("connections", 10).acquire_many(2).await?;
/// assert!(permits.is_held() && permits.count() == 2);
/// permits.extend(std::time::Duration::from_secs(60)).await?; // before a step that takes long
/// permits.release().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permits {
    pub(super) count: u32,
}

modes! {
    Permits: Option<Fence>, Detachable;
}

both_tell! { Permits {
    /// Returns how many permits are held.
    pub fn count(&self) -> u32 {
        self.known().count
    }
} }
