//! The read-write lock's handle.

use std::future::Future;
use std::time::Duration;

use super::kind::{READ, SHARED};
use super::mode::Shared;
use crate::base::error::{AcquireError, InvalidInput};
use crate::client::Client;
use crate::client::named::Named;
use crate::client::options::setters;
use crate::client::run::{RunError, run_under};
use crate::engine::guard::lease::handle::Exclusive;
use crate::engine::guard::lease::{Lease, LeaseView};
use crate::engine::shared_state::noun::name_and_validate;

/// A read-write lock on one name: many readers at a time, or one writer.
///
/// To write is to acquire the [`Mutex`](crate::Mutex) of the same name: the two exclude each other, and so does the
/// [`Semaphore`](crate::Semaphore) of that name. All wait in one queue, first come, first served within a priority. A
/// reader that comes after a waiting writer waits behind it, so neither readers nor writers starve.
///
/// A reader has no [`note`](RwLock::note), which lies beside the name and is that of one holder, and no other
/// [`protocol`](RwLock::protocol): with such an option, reading is refused. With
/// [`min_replicas`](RwLock::min_replicas) upgradable reads and downgrades are refused. It is not reentrant, and a plain
/// reader cannot become a writer: it releases first, or is an [`upgradable_read`](RwLock::upgradable_read).
/// [`Client::inspect`] shows who reads or writes, and [`Client::break_lease`] takes the lock from all of them.
///
/// Not on a majority of servers: they have no queue, so readers would keep a writer out.
///
/// The readers that wait behind a writer are granted in the step in which it releases, or leaves the queue because its
/// future was dropped.
///
/// # Examples
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leaselock::Client::open("mem:")?;
/// let lock = client.rwlock("config");
/// let (one, other) = (lock.read().await?, lock.read().await?);
/// assert!(lock.try_write().await?.is_none());
/// one.release().await?;
/// other.release().await?;
/// let writer = lock.write().await?;
/// # writer.release().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a read-write lock does nothing until it is acquired"]
pub struct RwLock {
    client: Client,
    pub(crate) named: Named,
}

impl Client {
    /// Returns the read-write lock of this name, with the client's default options. The first operation reports a bad
    /// name.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let reading = client.rwlock("config").read().await?;
    /// # reading.release().await?;
    /// # Ok(()) }
    /// ```
    pub fn rwlock(&self, name: impl Into<String>) -> RwLock {
        RwLock {
            client: self.clone(),
            named: Named::new(&self.state, &READ, name.into()).with_mode(SHARED),
        }
    }
}

impl RwLock {
    setters!(named.options);

    name_and_validate!(
        named,
        named.validate,
        "name",
        ": the name, or an option, of a read."
    );

    /// Acquires a read, and waits as the options say while a client writes or a waiter is ahead.
    ///
    /// Waiting, cancel safety and errors are those of [`Mutex::acquire`](crate::Mutex::acquire).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let reading = client.rwlock("config").read().await?;
    /// println!("other readers have {:?} too", reading.fence());
    /// reading.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn read(&self) -> Result<Lease<Shared>, AcquireError> {
        Ok(self.named.acquire().await?.held_as(Shared))
    }

    /// Acquires a read if no client writes and no waiter is ahead; `Ok(None)` when it is busy.
    ///
    /// One request, within the request timeout, which never joins the queue; otherwise as [`read`](RwLock::read).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// match client.rwlock("config").try_read().await? {
    ///     Some(reading) => reading.release().await?, // the work goes before this
    ///     None => println!("a client writes, or waits to write"),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn try_read(&self) -> Result<Option<Lease<Shared>>, AcquireError> {
        let lease = self.named.try_acquire().await?;
        Ok(lease.map(|lease| lease.held_as(Shared)))
    }

    /// Acquires a read, and waits in the queue for at most `limit`, as
    /// [`Mutex::acquire_within`](crate::Mutex::acquire_within); otherwise as [`read`](RwLock::read).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let limit = std::time::Duration::from_secs(5);
    /// let reading = client.rwlock("config").read_within(limit).await?;
    /// reading.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn read_within(&self, limit: Duration) -> Result<Lease<Shared>, AcquireError> {
        Ok(self.named.acquire_within(limit).await?.held_as(Shared))
    }

    /// Acquires the mutex of this name, to write, and waits as the options say until every reader has released.
    ///
    /// Waiting, cancel safety and errors are those of [`Mutex::acquire`](crate::Mutex::acquire).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let writing = client.rwlock("config").write().await?;
    /// assert!(client.mutex("config").try_acquire().await?.is_none()); // it is the mutex of that name
    /// writing.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn write(&self) -> Result<Lease, AcquireError> {
        self.writing().acquire().await
    }

    /// Acquires the mutex of this name if no client reads or writes and no waiter is ahead; `Ok(None)` when it is busy.
    ///
    /// One request, within the request timeout, which never joins the queue; otherwise as [`write`](RwLock::write).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// match client.rwlock("config").try_write().await? {
    ///     Some(writing) => writing.release().await?, // the work goes before this
    ///     None => println!("a client reads or writes"),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn try_write(&self) -> Result<Option<Lease>, AcquireError> {
        self.writing().try_acquire().await
    }

    /// Acquires the mutex of this name, and waits in the queue for at most `limit`, as
    /// [`Mutex::acquire_within`](crate::Mutex::acquire_within); otherwise as [`write`](RwLock::write).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let limit = std::time::Duration::from_secs(5);
    /// let writing = client.rwlock("config").write_within(limit).await?;
    /// writing.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn write_within(&self, limit: Duration) -> Result<Lease, AcquireError> {
        self.writing().acquire_within(limit).await
    }

    /// Runs `body` under a [`read`](RwLock::read), as [`Mutex::run`](crate::Mutex::run).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let lock = client.rwlock("config");
    /// let seen = lock.run_read(|_| async { std::fs::read_to_string("/proc/version") }).await?;
    /// # drop(seen);
    /// # Ok(()) }
    /// ```
    pub async fn run_read<T, E, F, Fut>(&self, body: F) -> Result<T, RunError<E, T>>
    where
        F: FnOnce(LeaseView<Shared>) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        run_under(self.read().await?, body).await
    }

    /// Runs `body` as the [writer](RwLock::write), as [`Mutex::run`](crate::Mutex::run).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// # async fn save(_: Option<leaselock::Sequencer>) -> std::io::Result<()> { Ok(()) }
    /// client.rwlock("config").run_write(|lease| save(lease.sequencer())).await?;
    /// # Ok(()) }
    /// ```
    pub async fn run_write<T, E, F, Fut>(&self, body: F) -> Result<T, RunError<E, T>>
    where
        F: FnOnce(LeaseView<Exclusive>) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        run_under(self.write().await?, body).await
    }

    /// The mutex of this name, with the same options.
    pub(super) fn writing(&self) -> Named {
        let mut mutex = self.client.mutex("").named;
        mutex.name = self.named.name.clone();
        mutex.options = self.named.options.clone();
        mutex
    }
}
