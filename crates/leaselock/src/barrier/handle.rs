//! The barrier's handle.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leaselock_fence::Name;

use super::calls::{ArrivalAtBarrier, ArriveAtBarrier, BarrierPass, Leave, Party};
use super::error::BarrierError;
use crate::base::{InvalidInput, Moment, Token, Ttl, hold};
use crate::client::Client;
use crate::engine::services::leftover::Leftover;
use crate::engine::shared_state::noun::{Noun, ValidNoun, name_and_validate};
use crate::engine::values::log::LogEvent;

/// All that wait pass in one step of the store.
const PARTIES_MAX: u32 = 10_000;

/// A barrier on one name: so many parties wait for each other and pass together, generation after generation.
///
/// A party counts while it waits: one that gives up, is dropped or crashes does not count any more, a crashed one at the
/// end of its lease, and the others wait on. All who are counted when the last one arrives pass in that step, also one
/// whose time is just over.
///
/// A barrier is no lock: a mutex of the same name knows nothing of it.
///
/// Not available on a majority of servers: several counts are not one count.
///
/// A `Barrier` remembers the latest generation that it has passed, to save a request. With its next wait it tells the store
/// to forget the pass before, which otherwise lies there until the lease is over. Clone it, share it, keep it.
///
/// # Examples
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leaselock::Client::open("mem:")?;
/// let phase = client.barrier("phase", 2);
/// let (one, other) = tokio::join!(phase.wait(), phase.wait());
/// let (one, other) = (one?, other?);
/// assert_eq!(one.generation, other.generation);
/// assert!(one.is_leader() != other.is_leader());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a barrier does nothing until a party waits"]
pub struct Barrier {
    pub(crate) noun: Noun,
    parties: u32,
    lease: Duration,
    /// The generation that waits now, as far as this client knows.
    generation: Arc<AtomicU64>,
    /// Waits that know that they passed, which the store does not have to remember.
    told: Arc<Mutex<Vec<Token>>>,
}

impl Client {
    /// Returns the barrier of this name for so many parties. The first operation reports a bad name.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// client.barrier("phase", 1).wait().await?;
    /// # Ok(()) }
    /// ```
    pub fn barrier(&self, name: impl Into<String>, parties: u32) -> Barrier {
        Barrier {
            noun: Noun::new(self.engine(), "barrier", name),
            parties,
            lease: Ttl::DEFAULT.as_duration(),
            generation: Arc::default(),
            told: Arc::default(),
        }
    }
}

impl Barrier {
    /// Sets for how long a party counts that crashed: 10 ms to 30 days, 10 s by default.
    pub fn party_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    name_and_validate!(noun, checked);

    fn checked(&self) -> Result<(ValidNoun, Ttl), InvalidInput> {
        if !(1..=PARTIES_MAX).contains(&self.parties) {
            let parties = self.parties;
            let text = format!("a barrier has 1 to {PARTIES_MAX} parties, and not {parties}");
            return Err(InvalidInput::new(text));
        }
        Ok((self.noun.valid()?, Ttl::new(self.lease)?))
    }

    /// Waits until all have arrived, without a limit.
    ///
    /// # Waiting
    /// One message wakes all that wait. A party polls every third of its lease, and once a second without messages.
    ///
    /// # Cancel safety
    /// Safe: a dropped party leaves in the background. It may have passed with the others before that.
    ///
    /// # Errors
    /// As [`wait_within`](Barrier::wait_within), but for the end of the limit. While it waits, a store that does not
    /// reply is asked again.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let phase = client.barrier("phase", 2);
    /// let (one, other) = tokio::join!(phase.wait(), phase.wait());
    /// assert_eq!(one?.generation, other?.generation); // they passed together
    /// # Ok(()) }
    /// ```
    pub async fn wait(&self) -> Result<BarrierPass, BarrierError> {
        self.wait_until(None).await
    }

    /// Waits until all have arrived, for at most `limit` and two request timeouts. See [`wait`](Barrier::wait).
    ///
    /// # Errors
    /// [`BarrierError::TimedOut`]: the caller does not count any more. Every variant says whether it may.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::barrier::BarrierError;
    ///
    /// let limit = std::time::Duration::from_millis(10);
    /// let alone = client.barrier("phase", 2).wait_within(limit).await.unwrap_err();
    /// assert!(matches!(alone, BarrierError::TimedOut { .. })); // and does not count any more
    /// # Ok(()) }
    /// ```
    pub async fn wait_within(&self, limit: Duration) -> Result<BarrierPass, BarrierError> {
        let until = self.noun.engine.clock.now().plus(limit);
        self.wait_until(Some(until)).await
    }

    async fn wait_until(&self, until: Option<Moment>) -> Result<BarrierPass, BarrierError> {
        let (barrier, lease) = self.checked()?;
        let (engine, nouns) = (&self.noun.engine, &self.noun.engine.totals.nouns);
        let (keys, token) = (barrier.keys.clone(), barrier.new_token()?);
        let party = Party { keys, token };
        let (channel, mut watch) = (barrier.channel(), barrier.watch(until));
        let mut place = Leftover::new(engine, Leave { party }, self.lease);
        let (began, within) = (engine.clock.now(), engine.request_timeout(lease));
        let (mut generation, mut waits_with) = (self.generation.load(Ordering::SeqCst), None);
        let told = hold(&self.told).pop();
        loop {
            watch.listens(within).await;
            place.begins();
            let arrive = ArriveAtBarrier {
                party: &place.what().party,
                parties: self.parties,
                lease,
                generation,
                channel: &channel,
                told: told.as_ref(),
            };
            match engine.ask(&arrive, within).await {
                Ok(ArrivalAtBarrier::Passed { index }) => {
                    if waits_with.is_none() {
                        nouns.arrivals.add("barrier");
                    }
                    return Ok(self.passed(place, generation, index));
                }
                Ok(ArrivalAtBarrier::Waiting { arrived }) => {
                    place.is_present();
                    watch.has_reply();
                    if waits_with.replace(arrived).is_none() {
                        nouns.arrivals.add("barrier");
                    }
                }
                // It was not known which generation waits.
                Ok(ArrivalAtBarrier::Missed { generation: now }) if waits_with.is_none() => {
                    generation = now;
                    continue;
                }
                Ok(ArrivalAtBarrier::Missed { generation }) => {
                    place.ends();
                    return Err(self.missed(barrier.name, generation));
                }
                Ok(ArrivalAtBarrier::Disagrees { parties }) => {
                    place.ends();
                    let name = barrier.name;
                    let (ours, theirs) = (self.parties, parties);
                    return Err(BarrierError::Mismatch { name, ours, theirs });
                }
                Err(source) => {
                    if waits_with.is_none() && !source.maybe_applied() {
                        place.ends(); // it never arrived
                    }
                    watch.goes_on_after(barrier.failure(source))?;
                }
            }
            if watch.is_over() {
                let waited = engine.clock.now().saturating_since(began);
                if let Some(index) = barrier.ask(place.what()).await? {
                    return Ok(self.passed(place, generation, index)); // just before it left
                }
                place.was_taken_back();
                return Err(BarrierError::TimedOut {
                    name: barrier.name,
                    arrived: waits_with.unwrap_or_default(),
                    parties: self.parties,
                    waited,
                });
            }
            watch.pause(lease.as_duration() / 3).await;
        }
    }

    /// The party did not count any more when the others passed: it polled too late.
    fn missed(&self, name: Name, generation: u64) -> BarrierError {
        let text =
            format!("a party was not counted any more, and generation {generation} waits now");
        let event = || LogEvent::new("barrier_missed", text).of(&name, None);
        self.noun.engine.log.note(event);
        BarrierError::Missed { name, generation }
    }

    /// The next wait begins in the generation behind this one, or finds out which one waits.
    fn passed(&self, mut place: Leftover<Leave>, generation: u64, index: u32) -> BarrierPass {
        let passed = &self.noun.engine.totals.nouns.generations;
        passed.fetch_add(u64::from(index == 0), Ordering::Relaxed);
        self.generation.store(generation + 1, Ordering::SeqCst);
        hold(&self.told).push(place.what().party.token.clone());
        place.ends();
        BarrierPass { generation, index }
    }
}
