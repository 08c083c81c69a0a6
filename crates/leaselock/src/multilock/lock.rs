//! The multilock's handle.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::{Fence, Name};
use tracing::Instrument;

use super::acquire::Plan;
use super::mode::Several;
use crate::base::InvalidInput;
use crate::base::error::AcquireError;
use crate::client::named::{Named, unless_busy};
use crate::client::run::{RunError, run_under};
use crate::engine::guard::lease::{Lease, LeaseView};
use crate::engine::values::Wait;
use crate::mutex::Mutex;

/// The mutexes of several names, acquired as one: at most 100, in any order.
///
/// Two clients that name the same locks in opposite orders never wait for each other in a circle: every client acquires
/// them in the order of their keys. Each name is an ordinary mutex, and so excludes every other lock of that name.
///
/// The options are those of the [`Mutex`], set before [`along_with`](Mutex::along_with), and count for every name.
///
/// # Examples
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leaselock::Client::open("mem:")?;
/// let both = client.mutex("account:1").along_with(["account:2"]);
/// let lease = both.acquire().await?;
/// assert_eq!(lease.fences().count(), 2);
/// lease.release().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a multilock does nothing until it is acquired"]
pub struct MultiLock {
    /// In the order in which the caller gave them.
    names: Vec<Named>,
}

impl Mutex {
    /// Returns the lock of this name and of these names too, for one lease that holds all of them.
    ///
    /// The options of this mutex count for every name, its [`owner`](Mutex::owner) too: that may acquire one of them again
    /// by itself. The first operation reports a bad name, a name that occurs
    /// twice, and more than 100 names. Only in the native protocol.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let transfer = client.mutex("from").along_with(["to", "fees"]);
    /// let lease = transfer.acquire().await?;
    /// for (name, fence) in lease.fences() {
    ///     println!("{name}: {fence:?}");
    /// }
    /// # Ok(()) }
    /// ```
    pub fn along_with(self, names: impl IntoIterator<Item = impl Into<String>>) -> MultiLock {
        let preset = self.named.options.like;
        let other = |name: String| {
            let mut other = self.named.clone();
            other.name = match preset {
                Some(preset) => preset.mutex_for(&name),
                None => Name::new(name),
            };
            other
        };
        let others: Vec<Named> = names.into_iter().map(Into::into).map(other).collect();
        let mut names = vec![self.named];
        names.extend(others);
        MultiLock { names }
    }
}

impl MultiLock {
    /// Checks now what the first operation would refuse: a name, a name that occurs twice, the number of names, or an
    /// option.
    ///
    /// # Errors
    /// [`InvalidInput`] says what would be valid. Nothing is sent.
    pub fn validate(self) -> Result<Self, InvalidInput> {
        Plan::of(&self.names)?;
        Ok(self)
    }

    /// Acquires every name if all are free and have no waiter ahead; `Ok(None)` when one is busy.
    ///
    /// # Waiting
    /// One request where the keys of all names can be in one call: on one server, and for names with the same hash tag
    /// everywhere but on a quorum. Otherwise one request for each name, and one for each name that is given back. Never
    /// joins a queue.
    ///
    /// # Cancel safety
    /// Safe: grants that the caller no longer awaits are released in the background.
    ///
    /// # Errors
    /// [`AcquireError`]; busy is not an error. No name stays held after one.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// match client.mutex("from").along_with(["to"]).try_acquire().await? {
    ///     Some(lease) => lease.release().await?, // the work goes before this
    ///     None => println!("another client is at it"),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<Lease<Several>>, AcquireError> {
        unless_busy(self.wait(Wait::Never).await)
    }

    /// Acquires every name, and waits as the options say: in the queues without a limit, unless set otherwise.
    ///
    /// # Waiting
    /// When one is busy, the client acquires the names one after the other, in the order of their keys. It holds and
    /// renews the earlier ones while it waits in the queue of the next. When one of them is lost meanwhile, the client
    /// gives all back and begins again, three times at most.
    ///
    /// # Cancel safety
    /// Safe: the names that are held are released in the background, and the request leaves the queue. The position in
    /// the queue is lost.
    ///
    /// # Errors
    /// [`AcquireError`], which names the lock that it is about. No name stays held after one; those that had been
    /// acquired are released, after an error of the store in the background.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let lease = client.mutex("from").along_with(["to"]).acquire().await?;
    /// tokio::select! {
    ///     () = transfer() => {}
    ///     lost = lease.lost() => return Err(lost.into()), // names the lock that was lost
    /// }
    /// lease.release().await?;
    /// # async fn transfer() {}
    /// # Ok(()) }
    /// ```
    pub async fn acquire(&self) -> Result<Lease<Several>, AcquireError> {
        let wait = self.names.first().map(|first| first.options.wait_policy());
        self.wait(wait.unwrap_or(Wait::Never)).await
    }

    /// Acquires every name, and waits for at most `limit` in all; otherwise as [`acquire`](MultiLock::acquire).
    ///
    /// Returns within `limit` and five request timeouts, four of which are for giving back what was acquired.
    ///
    /// # Errors
    /// [`AcquireError::TimedOut`] names the lock that other clients held to the end. Nothing is held then, and no queue
    /// has an entry of this attempt.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::AcquireError;
    /// use std::time::Duration;
    ///
    /// let both = client.mutex("from").along_with(["to"]);
    /// match both.acquire_within(Duration::from_secs(5)).await {
    ///     Ok(lease) => lease.release().await?,
    ///     Err(AcquireError::TimedOut { name, .. }) => println!("{name} was held for 5 s"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn acquire_within(&self, limit: Duration) -> Result<Lease<Several>, AcquireError> {
        self.wait(Wait::Timeout(limit)).await
    }

    /// [Acquires](MultiLock::acquire) and runs `body` as [`Mutex::run`] does; the loss of one name stops the body.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// # async fn transfer(_: Vec<leaselock::Sequencer>) -> std::io::Result<()> { Ok(()) }
    /// let both = client.mutex("from").along_with(["to"]);
    /// both.run(|lease| transfer(lease.sequencers().collect())).await?;
    /// # Ok(()) }
    /// ```
    pub async fn run<T, E, F, Fut>(&self, body: F) -> Result<T, RunError<E, T>>
    where
        F: FnOnce(LeaseView<Several>) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        run_under(self.acquire().await?, body).await
    }

    async fn wait(&self, wait: Wait) -> Result<Lease<Several>, AcquireError> {
        let acquiring = self.names[0].acquiring(Some("several"), wait); // the mutex itself, before those along with it
        let span = acquiring.span.clone();
        let acquired = self.wait_uncounted(wait).instrument(span).await;
        acquiring.end(acquired, |lease, span, hold| {
            let (log, hold) = (&lease.parts().0.log, hold(0));
            span.record("fence", lease.parts().1.fence.map(Fence::get));
            let each = lease.records();
            each.for_each(|one| one.count(log, |_| Arc::clone(&hold)));
        })
    }

    async fn wait_uncounted(&self, wait: Wait) -> Result<Lease<Several>, AcquireError> {
        let plan = Plan::of(&self.names)?;
        Box::pin(plan.acquire(wait)).await
    }
}
