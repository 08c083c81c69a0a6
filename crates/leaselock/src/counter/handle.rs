//! The counter's handle.

use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leaselock_fence::Sequencer;

use super::calls::{Change, ChangeTerms, PendingChange, Read};
use super::driver::{ChangeQueue, hear};
use super::error::CounterError;
use crate::base::{InvalidInput, span};
use crate::client::Client;
use crate::engine::shared_state::noun::{Noun, name_and_validate};
use crate::engine::values::request::Copies;

/// How long a counter may be kept.
const KEPT: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(366 * 86_400);
/// How long replicas may take.
const CONFIRMED: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);

/// A counter on one name, in which each change counts exactly once.
///
/// A client numbers its changes, and the store remembers the latest one of each client. A change whose reply is lost is
/// sent again under its number and does not count twice. Without that, a client that repeats `INCRBY` counts too much, and
/// one that does not repeat it counts too little.
/// A client has one request in flight for each counter. What its tasks add meanwhile leaves as one sum, and each task gets
/// its own number.
/// What the server acknowledged and then lost, by a restart or a failover, does not count any more;
/// [`min_replicas`](Counter::min_replicas) makes that rare.
///
/// A counter is no lock: a mutex of the same name knows nothing of it. It is kept for ever, unless it has a
/// [`keep_for`](Counter::keep_for). Not on a majority of servers, whose sums are not one sum. Clone it, share it, keep it.
///
/// # Examples
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leaselock::counter::CounterError;
///
/// # let client = leaselock::Client::open("mem:")?;
/// let visits = client.counter("visits");
/// assert_eq!(visits.incr().await?, 1);
/// assert_eq!(visits.add(41).await?, 42);
/// visits.compare_and_set(42, 0).await?;
/// let differs = visits.compare_and_set(42, 0).await.unwrap_err();
/// assert!(matches!(differs, CounterError::Mismatch { theirs: 0, .. }));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a counter does nothing until it is read or changed"]
pub struct Counter {
    noun: Noun,
    terms: ChangeTerms,
    /// Known once what was set is checked.
    queue: OnceLock<Arc<ChangeQueue>>,
}

impl Client {
    /// Returns the counter of this name, which begins at 0. The first operation reports a bad name.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// assert_eq!(client.counter("visits").incr().await?, 1);
    /// # Ok(()) }
    /// ```
    pub fn counter(&self, name: impl Into<String>) -> Counter {
        Counter {
            noun: Noun::new(self.engine(), "counter", name),
            terms: ChangeTerms::default(),
            queue: OnceLock::new(),
        }
    }
}

impl Counter {
    /// Sets how long the counter is kept after each change of this handle: 1 s to 366 days. Then it begins at 0 again.
    ///
    /// Without it a change leaves the end as it is, and a new counter is kept for ever.
    pub fn keep_for(self, kept: Duration) -> Self {
        self.with(|terms| terms.kept = Some(kept))
    }

    /// Changes the counter as this holder only: a change after one of a later holder is
    /// [`Stale`](CounterError::Stale) and does not count.
    ///
    /// The rule is that of the fence checkers of the crate [`leaselock-fence`](leaselock_fence); comparing and the change are one step on the
    /// store. Reads and changes without a sequencer are not checked. All leases that protect a counter have one name, that
    /// of the first: another one is [`OtherName`](CounterError::OtherName), because fencing tokens of different names
    /// cannot be compared.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let lease = client.mutex("import").acquire().await?;
    /// let shown = lease.sequencer().ok_or("fencing is on")?;
    /// let imported = client.counter("imported").fenced(&shown);
    /// assert_eq!(imported.add(500).await?, 500);
    /// # Ok(()) }
    /// ```
    pub fn fenced(self, shown: &Sequencer) -> Self {
        self.with(|terms| terms.shown = Some(Arc::new(shown.clone())))
    }

    /// Requires that `count` replicas confirm a change within `timeout`, which is 1 ms to 1 minute.
    ///
    /// When too few have by then, the change counts all the same, and the error is
    /// [`TooFewReplicas`](CounterError::TooFewReplicas). Only on a single server or behind Sentinels, and not over a
    /// connection that the program handed in. The user needs the command `WAIT`.
    pub fn min_replicas(self, count: u32, timeout: Duration) -> Self {
        self.with(|terms| terms.copies = Some(Copies::new(count, None, timeout)))
    }

    fn with(mut self, set: impl FnOnce(&mut ChangeTerms)) -> Self {
        set(&mut self.terms);
        self.queue = OnceLock::new();
        self
    }

    name_and_validate!(noun, queue);

    /// Returns the queue that all tasks of the client share, after a check of what was set.
    pub(super) fn queue(&self) -> Result<&Arc<ChangeQueue>, InvalidInput> {
        if let Some(queue) = self.queue.get() {
            return Ok(queue);
        }
        let (engine, terms) = (&self.noun.engine, &self.terms);
        if let Some(kept) = terms.kept.filter(|kept| !KEPT.contains(kept)).map(span) {
            let text = format!("a counter is kept for 1 s to 366 days, and not {kept}");
            return Err(InvalidInput::new(text));
        }
        let is_wrong = |it: Copies| it.replicas == 0 || !CONFIRMED.contains(&it.within);
        if terms.copies.is_some_and(is_wrong) {
            let text = "at least one replica confirms a change, within 1 ms to 1 minute";
            return Err(InvalidInput::new(text));
        }
        terms.copies.map_or(Ok(()), |_| engine.check_replicas())?;
        let noun = self.noun.valid()?;
        let (word, lock) = (noun.word, Arc::clone(&noun.keys.lock));
        let shared = || {
            engine
                .shared
                .states
                .get(word, &lock, || ChangeQueue::new(noun))
        };
        Ok(self.queue.get_or_init(shared))
    }

    /// Adds 1, and returns the sum, as [`add`](Counter::add).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// assert_eq!(client.counter("visits").incr().await?, 1);
    /// # Ok(()) }
    /// ```
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
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let stock = client.counter("stock/42");
    /// assert_eq!(stock.add(10).await?, 10);
    /// assert_eq!(stock.add(-3).await?, 7);
    /// # Ok(()) }
    /// ```
    pub async fn add(&self, value: i64) -> Result<i64, CounterError> {
        self.change(Change::Add(value)).await
    }

    /// Sets the counter to `new` if it is `expected`; waits as [`add`](Counter::add).
    ///
    /// # Cancel safety
    /// When dropped, the counter is set or not. It is not if the change has not left yet.
    ///
    /// # Errors
    /// [`CounterError::Mismatch`] has the number that the counter has instead. Every variant says whether it was set.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let version = client.counter("schema");
    /// let now = version.get().await?;
    /// version.compare_and_set(now, now + 1).await?; // an error if another client was faster
    /// # Ok(()) }
    /// ```
    pub async fn compare_and_set(&self, expected: i64, new: i64) -> Result<(), CounterError> {
        let value = new;
        self.change(Change::Set { expected, value }).await.map(drop)
    }

    /// Returns the number, by one request of two seconds at most: 0 if no client has changed the counter.
    ///
    /// # Errors
    /// [`CounterError::Store`]: the number is not known.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// assert_eq!(client.counter("visits").get().await?, 0);
    /// # Ok(()) }
    /// ```
    pub async fn get(&self) -> Result<i64, CounterError> {
        let noun = &self.queue()?.noun;
        Ok(noun.ask(&Read { keys: &noun.keys }).await?)
    }

    async fn change(&self, change: Change) -> Result<i64, CounterError> {
        let queue = self.queue()?;
        let (pending, hears) = PendingChange::new(change, self.terms.clone());
        let told = hear(queue, Some(pending), hears).await;
        CounterError::of(queue, told)
    }
}
