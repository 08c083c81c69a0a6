//! Reads that may upgrade, and the way down.

use std::time::Duration;

use super::change::{ChangeError, downgrade};
use super::kind::{READ, SHARED, UPGRADABLE, UPGRADE, UPGRADE_MODE};
use super::lock::RwLock;
use super::mode::{Shared, Upgradable};
use crate::base::error::{AcquireError, InvalidInput};
use crate::client::named::Named;
use crate::engine::guard::lease::Lease;
use crate::engine::guard::lease::handle::Exclusive;
use crate::engine::values::request::Wait;

impl RwLock {
    /// Reads, and may upgrade later; waits as the options say while a client writes, another may upgrade, or a waiter is
    /// ahead.
    ///
    /// Beside all readers, and one at a time: two readers that both waited to write would deadlock.
    ///
    /// Waiting, cancel safety and errors are those of [`Mutex::acquire`](crate::Mutex::acquire).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// # fn is_outdated() -> bool { true }
    /// # async fn rebuild() {}
    /// let lock = client.rwlock("index");
    /// let reading = lock.upgradable_read().await?;
    /// if is_outdated() {
    ///     let writing = reading.upgrade().await?; // nothing was written since the check
    ///     rebuild().await;
    ///     writing.release().await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn upgradable_read(&self) -> Result<Lease<Upgradable>, AcquireError> {
        let lease = self.upgradable()?.acquire().await?;
        Ok(Lease::upgradable(lease, self.writing()))
    }

    /// Reads, and may upgrade later, if no client writes or may upgrade and no waiter is ahead; `Ok(None)` when it is
    /// busy.
    ///
    /// One request, within the request timeout, which never joins the queue; otherwise as [`upgradable_read`](RwLock::upgradable_read).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let config = client.rwlock("config");
    /// if let Some(reading) = config.try_upgradable_read().await? {
    ///     reading.release().await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn try_upgradable_read(&self) -> Result<Option<Lease<Upgradable>>, AcquireError> {
        let lease = self.upgradable()?.try_acquire().await?;
        Ok(lease.map(|lease| Lease::upgradable(lease, self.writing())))
    }

    /// Reads, and may upgrade later; waits in the queue for at most `limit`, as
    /// [`Mutex::acquire_within`](crate::Mutex::acquire_within); otherwise as [`upgradable_read`](RwLock::upgradable_read).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let limit = std::time::Duration::from_secs(5);
    /// let reading = client.rwlock("config").upgradable_read_within(limit).await?;
    /// reading.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn upgradable_read_within(
        &self,
        limit: Duration,
    ) -> Result<Lease<Upgradable>, AcquireError> {
        let lease = self.upgradable()?.acquire_within(limit).await?;
        Ok(Lease::upgradable(lease, self.writing()))
    }

    /// Goes on as a reader with the lease of a writer of this name; no client writes in between.
    ///
    /// The readers at the head of the queue are granted in the same step. The read has these options, and a fencing
    /// token above the writer's. `lost()` of the writer's lease resolves.
    ///
    /// # Waiting
    /// One request, within the request timeout.
    ///
    /// # Cancel safety
    /// When dropped, the lease is released in the background.
    ///
    /// # Errors
    /// [`ChangeError`]: its `lease` is held as before, unless [`is_held`](Lease::is_held) says no.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let lock = client.rwlock("config");
    /// let writing = lock.write().await?;
    /// // write, and then read what was written, beside other readers
    /// let reading = lock.downgrade(writing).await?;
    /// # reading.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn downgrade(&self, writing: Lease) -> Result<Lease<Shared>, ChangeError<Exclusive>> {
        downgrade(&self.named, writing, SHARED, Shared).await
    }

    /// Goes on as a reader that may upgrade, with the lease of a writer of this name; otherwise as
    /// [`downgrade`](RwLock::downgrade).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let config = client.rwlock("config");
    /// let writing = config.write().await?;
    /// let reading = config.downgrade_to_upgradable(writing).await.map_err(|failed| failed.error)?;
    /// reading.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn downgrade_to_upgradable(
        &self,
        writing: Lease,
    ) -> Result<Lease<Upgradable>, ChangeError<Exclusive>> {
        let by = Box::new(self.writing());
        downgrade(&self.named, writing, UPGRADABLE, Upgradable { writing: by }).await
    }

    /// The request of an upgradable reader.
    fn upgradable(&self) -> Result<Named, InvalidInput> {
        if self.named.options.copies.is_some() {
            let why = "an upgradable read does not support min_replicas or fsynced: an upgrade that too few replicas have \
                       could not become a read again; leave it out, or write";
            return Err(InvalidInput::new(why));
        }
        Ok(self.named.as_kind(&READ, Some(UPGRADABLE)))
    }
}

impl Lease<Upgradable> {
    /// Goes on with the lease of a reader that may upgrade to a writer of this lock.
    pub(super) fn upgradable(reading: Lease, writing: Named) -> Self {
        let writing = Box::new(writing);
        reading.held_as(Upgradable { writing })
    }

    /// Becomes the writer; waits as the options say until every other reader has released.
    ///
    /// The read lasts until then, so no client writes in between. The lease that it returns is that of the
    /// [`Mutex`](crate::Mutex) of this name, with the same options and a larger fencing token. `lost()` of the read
    /// resolves then.
    ///
    /// # Waiting
    /// In front of every waiter, whatever its priority. Readers that come later wait behind this one.
    ///
    /// # Cancel safety
    /// When dropped, the read and what may have been granted are released in the background. Use
    /// [`upgrade_within`](Lease::upgrade_within) to give up the wait and keep the read.
    ///
    /// # Errors
    /// [`ChangeError`] with this lease, which still reads unless [`is_held`](Lease::is_held) says no. After
    /// [`AcquireError::Unknown`] the store may have made it exclusive, which keeps other clients out: upgrade again,
    /// downgrade or release.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let reading = client.rwlock("config").upgradable_read().await?;
    /// let writing = reading.upgrade().await?;
    /// # writing.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn upgrade(self) -> Result<Lease, ChangeError<Upgradable>> {
        self.upgrade_by(None).await
    }

    /// Becomes the writer if no other client reads; an error with [`AcquireError::TimedOut`] otherwise.
    ///
    /// One request, within the request timeout. Waiters in the queue do not matter: they wait for this reader. Otherwise as
    /// [`upgrade`](Lease::upgrade).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let reading = client.rwlock("config").upgradable_read().await?;
    /// match reading.try_upgrade().await {
    ///     Ok(writing) => writing.release().await?,
    ///     Err(busy) => println!("others read: {}", busy.error),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn try_upgrade(self) -> Result<Lease, ChangeError<Upgradable>> {
        self.upgrade_by(Some(Wait::Never)).await
    }

    /// Becomes the writer, and waits for other readers for at most `limit`; an error with [`AcquireError::TimedOut`] when
    /// others read to the end.
    ///
    /// Returns within `limit` and two request timeouts, whatever the network does; otherwise as [`upgrade`](Lease::upgrade).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let reading = client.rwlock("config").upgradable_read().await?;
    /// let limit = std::time::Duration::from_secs(5);
    /// let writing = reading.upgrade_within(limit).await.map_err(|failed| failed.error)?;
    /// writing.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn upgrade_within(self, limit: Duration) -> Result<Lease, ChangeError<Upgradable>> {
        self.upgrade_by(Some(Wait::Timeout(limit))).await
    }

    async fn upgrade_by(mut self, wait: Option<Wait>) -> Result<Lease, ChangeError<Upgradable>> {
        let writing = self.known().writing.clone();
        let by = writing.as_kind(&UPGRADE, Some(UPGRADE_MODE));
        self.announce_change(true);
        match by.change(&self, &writing, wait).await {
            Ok(mut writing) => {
                writing.succeed(self);
                Ok(writing)
            }
            Err(error) => {
                self.announce_change(false);
                Err(ChangeError::new(self, error))
            }
        }
    }

    /// Goes on as a plain reader, so that another one may become upgradable.
    ///
    /// # Cancel safety
    /// When dropped, the lease is released in the background.
    ///
    /// # Errors
    /// [`ChangeError`]: its `lease` is held as before, unless [`is_held`](Lease::is_held) says no.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let reading = client.rwlock("config").upgradable_read().await?;
    /// let reading = reading.downgrade().await.map_err(|failed| failed.error)?; // a plain read: it cannot be upgraded
    /// reading.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn downgrade(self) -> Result<Lease<Shared>, ChangeError<Upgradable>> {
        let by = self.known().writing.clone();
        downgrade(&by, self, SHARED, Shared).await
    }
}
