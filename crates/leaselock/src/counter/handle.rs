//! The counter's handle.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::calls::Read;
use super::change::Change;
use super::error::CounterError;
use super::queue::ChangeQueue;
use crate::base::error::InvalidInput;
use crate::base::name::Name;
use crate::client::Client;
use crate::client::state::ClientState;
use crate::engine::core::OPERATOR_WITHIN;
use crate::script::keys::LockKeys;

const NOUN: &str = "counter";
const KEPT_MIN: Duration = Duration::from_secs(1);
const KEPT_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// A counter on one name, in which each change counts exactly once.
///
/// A client numbers its changes, and the store remembers the latest one of each client. A change whose reply is lost is
/// sent again under its number and does not count twice. Without that, a client that repeats `INCRBY` counts too much, and
/// one that does not repeat it counts too little.
///
/// A client has one request in flight for each counter. What its tasks add meanwhile leaves as one sum, and each task gets
/// its own number.
///
/// What the server acknowledged and then lost, by a restart or a failover, does not count any more.
///
/// A counter is no lock: a mutex of the same name knows nothing of it. It is kept for ever, unless it has a
/// [`ttl`](Counter::ttl).
///
/// Not on a [`Quorum`](crate::Quorum): the sums of several majorities are not one sum.
///
/// Clone it, share it, keep it.
///
/// # Examples
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leaselock::CounterError;
///
/// # let client = leaselock::Client::connect("mem:")?;
/// let visits = client.counter("visits");
/// assert_eq!(visits.incr().await?, 1);
/// assert_eq!(visits.add(41).await?, 42);
/// visits.compare_and_set(42, 0).await?;
/// let differs = visits.compare_and_set(42, 0).await.unwrap_err();
/// assert!(matches!(differs, CounterError::Differs { value: 0, .. }));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a counter does nothing until it is read or changed"]
pub struct Counter {
    state: Arc<ClientState>,
    name: Result<Name, InvalidInput>,
    kept: Option<Duration>,
    queue: OnceLock<Arc<ChangeQueue>>,
}

impl Client {
    /// Returns the counter of this name, which begins at 0. The first operation reports a bad name.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::connect("mem:")?;
    /// assert_eq!(client.counter("visits").incr().await?, 1);
    /// # Ok(()) }
    /// ```
    pub fn counter(&self, name: impl Into<String>) -> Counter {
        Counter {
            state: Arc::clone(&self.state),
            name: Name::new(name),
            kept: None,
            queue: OnceLock::new(),
        }
    }
}

impl Counter {
    /// Sets how long the counter is kept after each change of this handle: 1 s to 366 days. Then it begins at 0 again.
    ///
    /// Without it a change leaves the end as it is, and a new counter is kept for ever.
    pub fn ttl(mut self, kept: Duration) -> Self {
        self.kept = Some(kept);
        self
    }

    /// Returns the name; `None` for a malformed one, which the first operation reports.
    pub fn name(&self) -> Option<&str> {
        self.name.as_ref().ok().map(Name::as_str)
    }

    /// Checks now what the first operation would refuse.
    ///
    /// # Errors
    /// [`InvalidInput`] says what would be valid. Nothing is sent.
    pub fn validate(self) -> Result<Self, InvalidInput> {
        self.kept_ms()?;
        self.keys()?;
        Ok(self)
    }

    fn keys(&self) -> Result<(Name, LockKeys), InvalidInput> {
        let name = self.name.clone()?;
        let keys = LockKeys::new(&self.state.engine.prefix, &name)?;
        Ok((name, keys))
    }

    fn kept_ms(&self) -> Result<u64, InvalidInput> {
        match self.kept {
            None => Ok(0),
            Some(kept) if (KEPT_MIN..=KEPT_MAX).contains(&kept) => {
                Ok(u64::try_from(kept.as_millis()).unwrap_or(u64::MAX))
            }
            Some(kept) => {
                let text = format!("a counter is kept for 1 s to 366 days, and not {kept:?}");
                Err(InvalidInput::new(text))
            }
        }
    }

    /// Adds 1, and returns the sum.
    ///
    /// # Waiting
    /// As [`add`](Counter::add).
    ///
    /// # Cancel safety
    /// As [`add`](Counter::add).
    ///
    /// # Errors
    /// As [`add`](Counter::add).
    pub async fn incr(&self) -> Result<i64, CounterError> {
        self.add(1).await
    }

    /// Adds a number, which may be below zero, and returns the sum.
    ///
    /// # Waiting
    /// One request, behind the one that is in flight. While its reply is lost, it is sent again for five seconds.
    ///
    /// # Cancel safety
    /// When dropped, the change counts once or not at all. It does not count if it has not left yet.
    ///
    /// # Errors
    /// [`CounterError`]: every variant says whether the change counts. [`Overflow`](CounterError::Overflow) when the sum
    /// needs more than 64 bits.
    pub async fn add(&self, value: i64) -> Result<i64, CounterError> {
        self.change(Change::Add(value)).await
    }

    /// Sets the counter to `new` if it is `expected`.
    ///
    /// # Waiting
    /// As [`add`](Counter::add).
    ///
    /// # Cancel safety
    /// When dropped, the counter is set or not. It is not if the change has not left yet.
    ///
    /// # Errors
    /// [`CounterError::Differs`] has the number that the counter has instead. Every variant says whether it was set.
    pub async fn compare_and_set(&self, expected: i64, new: i64) -> Result<(), CounterError> {
        let value = new;
        self.change(Change::Set { expected, value }).await.map(drop)
    }

    /// Returns the number: 0 if no client has changed the counter.
    ///
    /// # Waiting
    /// One request of two seconds at most.
    ///
    /// # Cancel safety
    /// Safe: reading changes nothing.
    ///
    /// # Errors
    /// [`CounterError::Store`]: the number is not known.
    pub async fn get(&self) -> Result<i64, CounterError> {
        let (name, keys) = self.keys()?;
        let read = Read { keys: &keys };
        let read = self.state.engine.ask(&read, OPERATOR_WITHIN).await;
        read.map_err(|source| CounterError::Store { name, source })
    }

    async fn change(&self, change: Change) -> Result<i64, CounterError> {
        let kept_ms = self.kept_ms()?;
        let (name, keys) = self.keys()?;
        let engine = &self.state.engine;
        let queue = self.queue.get_or_init(|| {
            let lock = Arc::clone(&keys.lock);
            let shared = &engine.shared;
            shared.get(NOUN, &lock, || ChangeQueue::new(keys))
        });
        let told = queue.ask(engine, change, kept_ms).await;
        CounterError::of(queue, engine, name, told)
    }
}
