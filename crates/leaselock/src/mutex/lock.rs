//! The mutex: one holder at a time.

use std::future::Future;
use std::time::Duration;

use super::kind::MUTEX;
use crate::base::error::{AcquireError, InvalidInput, RequestError};
use crate::client::handle::Client;
use crate::client::inspection::{Holder, Holding, not_a_lock};
use crate::client::look::look;
use crate::client::named::Named;
use crate::client::options::setters;
use crate::client::run::{RunError, run_under};
use crate::engine::guard::lease::handle::Exclusive;
use crate::engine::guard::lease::{Lease, LeaseView};
use crate::engine::shared_state::noun::name_and_validate;
use crate::engine::ways::schedule;
use crate::interop::preset::Preset;

/// A lock on one name: at most one lease at a time, first come, first served within a priority.
///
/// A `Mutex` has no state of its own: clone it, share it, keep it. Its setters take and return the value.
#[derive(Debug, Clone)]
#[must_use = "a mutex does nothing until it is acquired"]
pub struct Mutex {
    pub(crate) named: Named,
}

impl Client {
    /// Returns the lock of this name, with the client's default options. The first operation reports a bad name.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let mutex = client.mutex("invoices/2026-07");
    /// let lease = mutex.acquire().await?;
    /// # lease.release().await?;
    /// # Ok(()) }
    /// ```
    pub fn mutex(&self, name: impl Into<String>) -> Mutex {
        Mutex {
            named: Named::new(&self.state, &MUTEX, name.into()),
        }
    }
}

impl Mutex {
    setters!(named.options);

    /// Shares the lock of this name with another library.
    ///
    /// The name becomes the library's key. The library's ttl and wait policy apply where neither this mutex nor the
    /// client's defaults set their own, in whatever order the setters are called. Everything else stays as it is:
    /// tokens, fences, renewal, the queue of leaselock's clients. Only if the library has another
    /// [`protocol`](Mutex::protocol), that comes with the preset.
    ///
    /// Errors, handles and [`name`](Mutex::name) have the library's key from then on; with python-redis-lock, errors and
    /// `name` keep the name. The client's prefix precedes the key, so leave the prefix empty unless the library's user
    /// has the same one. The first operation refuses a second library, and options that its locks do not support, such as a ttl that is not whole seconds.
    ///
    /// ```
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::interop::Preset;
    ///
    /// let mutex = client.mutex("job").preset(Preset::REDIS_SEMAPHORE);
    /// assert_eq!(mutex.name(), Some("mutex:job"));
    /// # Ok::<_, leaselock::error::InvalidInput>(())
    /// ```
    pub fn preset(mut self, preset: Preset) -> Self {
        let first = self.named.options.like.replace(preset);
        self.named.rename(|name| match first {
            None => preset.mutex_for(name.as_str()),
            Some(first) => Err(InvalidInput::new(format!(
                "`{name}` is a lock of {first} already; name one library, not {preset} too"
            ))),
        });
        if self.named.options.foreign().is_none() {
            self.named.options.protocol = preset.protocol(); // another that was asked for is refused, where it does not fit
        }
        self
    }

    name_and_validate!(
        named,
        named.validate,
        "name",
        ": the name, an option, or what the protocol cannot do."
    );

    /// Acquires the lock if it is free and no waiter is ahead in the queue; `Ok(None)` when it is busy.
    ///
    /// One request, within the request timeout, which never joins the queue; otherwise as [`acquire`](Mutex::acquire).
    ///
    /// # Errors
    /// [`AcquireError`]; busy is not an error.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// # let mutex = client.mutex("invoices");
    /// match mutex.try_acquire().await? {
    ///     Some(lease) => lease.release().await?, // the work goes before this
    ///     None => println!("another client is at it"),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<Lease>, AcquireError> {
        self.named.try_acquire().await
    }

    /// Acquires the lock, and waits as the options say: in the queue without a limit, unless set otherwise.
    ///
    /// # Waiting
    /// In the queue, first come, first served within a priority. The holder's release and this grant are one step on the
    /// store. Fails after 2 s when the store never replied.
    ///
    /// # Cancel safety
    /// Safe: the request of a dropped future leaves the queue in the background. A grant that the caller no longer awaits
    /// goes to the next waiter. The position in the queue is lost.
    ///
    /// # Errors
    /// [`AcquireError`]: every variant says what it means for what you hold.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let lease = client.mutex("invoices").acquire().await?;
    /// println!("fencing token {:?}", lease.fence());
    /// lease.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn acquire(&self) -> Result<Lease, AcquireError> {
        self.named.acquire().await
    }

    /// Acquires the lock, and waits in the queue for at most `limit`.
    ///
    /// Returns within `limit` and one request timeout, whatever the network does; otherwise as [`acquire`](Mutex::acquire).
    ///
    /// # Errors
    /// [`AcquireError::TimedOut`] when other clients held it to the end; this attempt has no queue entry then.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::AcquireError;
    /// use std::time::Duration;
    ///
    /// match client.mutex("invoices").acquire_within(Duration::from_secs(5)).await {
    ///     Ok(lease) => lease.release().await?,
    ///     Err(AcquireError::TimedOut { holder, .. }) => println!("{holder:?} held it for 5 s"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn acquire_within(&self, limit: Duration) -> Result<Lease, AcquireError> {
        self.named.acquire_within(limit).await
    }

    /// Returns the lock's holder without acquiring the lock; `Ok(None)` when it is free.
    ///
    /// Of several readers or holders of permits it is the one whose lease ends last;
    /// [`Client::inspect`](crate::Client::inspect) shows all of them. One read, of two seconds at most, whatever the wait
    /// policy.
    ///
    /// # Errors
    /// [`RequestError`]: it is not known whether any client holds the lock. Its kind is
    /// [`WrongType`](crate::ErrorKind::WrongType) when something that is no lock lies there.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// match client.mutex("invoices").holder().await? {
    ///     Some(holder) => println!("{:?} holds it for another {:?}", holder.process, holder.remaining),
    ///     None => println!("it is free"),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn holder(&self) -> Result<Option<Holder>, RequestError> {
        let Named { state, options, .. } = &self.named;
        let name = self.named.name()?;
        options.check()?;
        match look(&state.engine, options.protocol, name).await? {
            Holding::Free => Ok(None),
            Holding::Held { holders, .. } => {
                let left = |one: &Holder| one.remaining.unwrap_or(Duration::MAX);
                Ok(holders.into_iter().max_by_key(left))
            }
            Holding::NotALock { kind } => Err(not_a_lock(name, &kind).into()),
        }
    }

    /// Waits for at most `limit` until the lock is free, without acquiring it; false when it is held to the end.
    ///
    /// # Waiting
    /// Reads five times a second, and when the holder's lease would end. Takes no place in the queue, so another client
    /// may acquire the lock before the caller acts. Otherwise as [`holder`](Mutex::holder).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let deploy = client.mutex("deploy");
    /// if deploy.free_within(std::time::Duration::from_secs(60)).await? {
    ///     println!("no deployment is on");
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn free_within(&self, limit: Duration) -> Result<bool, RequestError> {
        let clock = &self.named.state.engine.clock;
        let end = clock.now().plus(limit);
        while let Some(holder) = self.holder().await? {
            let now = clock.now();
            if now >= end {
                return Ok(false);
            }
            let usual = schedule::jittered(CHECK_EVERY, 20);
            let rest = holder.remaining.map(|rest| rest + AFTER_END);
            let next = now.plus(rest.map_or(usual, |rest| rest.min(usual)));
            clock.sleep_until(next.min(end)).await;
        }
        Ok(true)
    }

    /// Runs `body` under a lease.
    ///
    /// Acquires as [`acquire`](Mutex::acquire) does, and stops the body at its next await when the lease is lost. Releases
    /// on success, on the body's own error and on panic.
    ///
    /// # Cancel safety
    /// Safe: the body is dropped and the lease is released in the background.
    ///
    /// # Errors
    /// [`RunError`]: every variant says whether the body ran. A body that returned `Ok` was alone to its end, unless the
    /// error is [`ReleasedLate`](RunError::ReleasedLate).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// # async fn settle(_: Option<leaselock::Sequencer>) -> std::io::Result<u32> { Ok(42) }
    /// let settled = client.mutex("invoices").run(|lease| settle(lease.sequencer())).await?;
    /// assert_eq!(settled, 42);
    /// # Ok(()) }
    /// ```
    pub async fn run<T, E, F, Fut>(&self, body: F) -> Result<T, RunError<E, T>>
    where
        F: FnOnce(LeaseView<Exclusive>) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        run_under(self.acquire().await?, body).await
    }
}

/// How often [`Mutex::free_within`] reads.
const CHECK_EVERY: Duration = Duration::from_millis(200);
/// A key is gone one millisecond after it expires.
const AFTER_END: Duration = Duration::from_millis(2);
