//! The mutex: one holder at a time.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::kind::MUTEX;
use crate::base::error::{AcquireError, InspectError, InvalidInput};
use crate::base::name::Name;
use crate::client::detached::{DetachedLease, Handle};
use crate::client::handle::on_every_client;
use crate::client::inspection::{Holder, Holding};
use crate::client::look::look;
use crate::client::named::Named;
use crate::client::options::setters;
#[cfg(feature = "redis")]
use crate::client::quorum::Quorum;
use crate::client::run::{RunError, RunResult};
use crate::client::{AnyClient, Client};
use crate::engine::lease::{Lease, LeaseView};
use crate::engine::request::Wait;
use crate::engine::wait::schedule;
use crate::interop::preset::Preset;

/// A lock on one name: at most one lease at a time, first come, first served within a priority.
///
/// A value without state: clone it, share it, keep it. Options are set by value.
#[derive(Debug, Clone)]
#[must_use = "a mutex does nothing until it is acquired"]
pub struct Mutex {
    pub(crate) named: Named,
}

on_every_client! {
    /// The lock of this name, with the client's default options. A bad name is reported by the first operation.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::connect("mem:")?;
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

    /// Continues a lease that another process has detached. A quorum continues one of a quorum of the same servers.
    pub fn attach(&self, handle: Handle) -> DetachedLease {
        DetachedLease::new(Arc::clone(&self.state.engine), &MUTEX, handle)
    }
}

impl Mutex {
    setters!(named.options);

    /// Means the lock that another library has under this name: the name becomes the library's key, and its ttl and
    /// its way of waiting hold where neither this mutex nor the client's defaults set their own, in whatever order.
    /// Everything else stays as it is: tokens, fences, renewal, the line of those who use leaselock; unless the library
    /// has another [`protocol`](Mutex::protocol), which comes with the preset.
    ///
    /// Errors, handles and [`name`](Mutex::name) have the library's key from then on. The client's prefix stands in
    /// front of it, so leave that empty unless the library's user has the same one. A second library is refused by
    /// the first operation, and so is what its locks cannot have, such as a ttl that is not whole seconds.
    ///
    /// ```
    /// # let client = leaselock::Client::connect("mem:")?;
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
        if self.named.options.protocol.is_native() {
            self.named.options.protocol = preset.protocol(); // another that was asked for is refused, where it does not fit
        }
        self
    }

    /// The name; `None` when it is not well-formed, which the first operation reports.
    pub fn name(&self) -> Option<&str> {
        self.named.name.as_ref().ok().map(Name::as_str)
    }

    /// Refuses now what the first operation would refuse: a name, an option, or what the protocol cannot do.
    ///
    /// # Errors
    /// [`InvalidInput`] says what would be right. Nothing is sent.
    pub fn validate(self) -> Result<Self, InvalidInput> {
        self.named.validate()?;
        Ok(self)
    }

    /// For errors that name the lock before its name was checked.
    #[cfg(feature = "blocking")]
    pub(crate) fn shown_name(&self) -> Name {
        self.named
            .name
            .clone()
            .unwrap_or_else(|_| Name::placeholder())
    }

    /// Takes the lock if it is free and nobody is ahead in line; `Ok(None)` when it is busy.
    ///
    /// # Waiting
    /// One request, within the request time-out. Never gets in line.
    ///
    /// # Cancel safety
    /// Safe: a grant that nobody takes is given back in the background.
    ///
    /// # Errors
    /// [`AcquireError`]; busy is not an error.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::connect("mem:")?;
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

    /// Takes the lock, waiting as the options say: for ever in line, unless set otherwise.
    ///
    /// # Waiting
    /// In line, first come, first served within a priority. The holder's release and this grant are one step on the
    /// store. Fails after 2 s when the store never answered.
    ///
    /// # Cancel safety
    /// Safe: a future that is dropped leaves the line in the background, and a grant that nobody takes goes to the
    /// next. The place in line is lost.
    ///
    /// # Errors
    /// [`AcquireError`]: every variant says what it means for what you hold.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::connect("mem:")?;
    /// let lease = client.mutex("invoices").acquire().await?;
    /// println!("fencing token {:?}", lease.fence());
    /// lease.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn acquire(&self) -> Result<Lease, AcquireError> {
        self.named.acquire().await
    }

    /// Takes the lock, waiting in line for at most `limit`.
    ///
    /// # Waiting
    /// Returns within `limit` and one request time-out, whatever the network does.
    ///
    /// # Cancel safety
    /// As [`acquire`](Mutex::acquire).
    ///
    /// # Errors
    /// [`AcquireError::StillBusy`] when others held it to the end; nothing of ours is in line then.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::connect("mem:")?;
    /// use leaselock::AcquireError;
    /// use std::time::Duration;
    ///
    /// match client.mutex("invoices").acquire_within(Duration::from_secs(5)).await {
    ///     Ok(lease) => lease.release().await?,
    ///     Err(AcquireError::StillBusy { holder, .. }) => println!("{holder:?} held it for 5 s"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn acquire_within(&self, limit: Duration) -> Result<Lease, AcquireError> {
        self.named.acquire_within(limit).await
    }

    /// Looks whether anybody holds the lock, and never takes it. `Ok(None)`: nobody did.
    ///
    /// # Waiting
    /// With [`Wait::Poll`], looks again while it is held, as often as the policy says; with [`Wait::Timeout`] until
    /// the time is over; otherwise one look. `Ok(Some(_))` is whoever held it at the last look.
    ///
    /// # Cancel safety
    /// Safe: looking changes nothing.
    ///
    /// # Errors
    /// [`InspectError`]: it is not known whether anybody holds it.
    pub async fn holder(&self) -> Result<Option<Holder>, InspectError> {
        let Named { state, options, .. } = &self.named;
        let name = self.named.name()?;
        options.check()?;
        let clock = &state.engine.clock;
        let (mut left, delay, percent, end) = match options.patience() {
            Wait::Never | Wait::Forever => (Some(0), Duration::ZERO, 0, None),
            Wait::Poll {
                count,
                delay,
                jitter_percent,
            } => (count, delay, jitter_percent, None),
            Wait::Timeout(limit) => (None, CHECK_EVERY, 20, Some(clock.now().plus(limit))),
        };
        loop {
            let holder = match look(&state.engine, options.protocol, name).await? {
                Holding::Free => return Ok(None),
                Holding::Held(holder) => holder,
                Holding::NotALock { kind } => Holder::not_a_lock(&kind),
            };
            let pause = schedule::jittered(delay, percent)
                .min(holder.remaining.map_or(delay, |rest| rest + AFTER_END));
            let next = clock.now().plus(pause);
            if left == Some(0) || end.is_some_and(|end| clock.now() >= end) {
                return Ok(Some(holder));
            }
            left = left.map(|left| left - 1);
            clock
                .sleep_until(end.map_or(next, |end| next.min(end)))
                .await;
        }
    }

    /// Runs `body` under a lease: takes it as [`acquire`](Mutex::acquire) does, stops the body when the lease is
    /// lost, and releases on success, on an early return inside the body and on panic.
    ///
    /// # Cancel safety
    /// Safe: the body is dropped and the lease is released in the background.
    ///
    /// # Errors
    /// [`RunError::Acquire`]: the body did not begin. [`RunError::Lost`]: it was stopped.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::connect("mem:")?;
    /// let ran = client.mutex("invoices").run(|lease| async move { lease.fence() }).await?;
    /// assert!(ran.value.is_some() && ran.released.is_ok());
    /// # Ok(()) }
    /// ```
    pub async fn run<T, F, Fut>(&self, body: F) -> Result<RunResult<T>, RunError>
    where
        F: FnOnce(LeaseView) -> Fut,
        Fut: Future<Output = T>,
    {
        self.named.run(body).await
    }
}

/// How often [`Mutex::holder`] looks while it waits for a time.
const CHECK_EVERY: Duration = Duration::from_millis(200);
/// A key is gone one millisecond after its time.
const AFTER_END: Duration = Duration::from_millis(2);
