//! The latch's handle.

use std::time::Duration;

use super::calls::{Arrive, Arrived, InspectLatch, InspectedLatch};
use super::error::LatchError;
use crate::base::clock::Moment;
use crate::base::error::{InvalidInput, StoreError};
use crate::client::Client;
use crate::engine::services::broadcast;
use crate::engine::services::core::OPERATOR_WITHIN;
use crate::engine::shared_state::noun::Noun;
use crate::engine::shared_state::watch::Watch;
use crate::script::keys::LockKeys;

const NOUN: &str = "latch";
/// Each arrival and each read goes through all of them.
const PARTIES_MAX: u32 = 10_000;
const PARTY_MAX: usize = 200;
/// How long a latch is kept after the latest arrival by default.
const KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A latch on one name: parties arrive, and when all have arrived it opens, once and for all.
///
/// Parties have names, so one that is restarted, or sends its arrival again, counts once. A latch at which no party has
/// arrived is closed. It is kept for seven days after the latest arrival, and then begins anew.
///
/// A latch is no lock: it holds nothing, and a mutex of the same name knows nothing of it. What
/// `java.util.concurrent.CountDownLatch` calls counting down is to arrive.
///
/// Not on a [`Quorum`](crate::Quorum): a count is nothing that a majority of nodes agrees on.
///
/// A `Latch` has no state of its own: clone it, share it, keep it.
///
/// # Examples
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leaselock::Client::connect("mem:")?;
/// let deployed = client.latch("deploy-42", 2);
/// assert_eq!(deployed.arrive("shard-1").await?, 1); // one is missing
/// assert_eq!(deployed.arrive("shard-2").await?, 0);
/// deployed.wait().await?; // open, for whoever comes later too
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a latch does nothing until a party arrives or waits"]
pub struct Latch {
    pub(crate) noun: Noun,
    count: u32,
    kept: Duration,
}

/// Who has arrived at a latch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LatchState {
    /// The parties, in the order of their arrival. Other clients named them: show them, do not trust them.
    pub arrived: Vec<String>,
    /// How many are missing; 0 when the latch is open.
    pub left: u32,
}

impl LatchState {
    /// True if all parties have arrived.
    pub fn is_open(&self) -> bool {
        self.left == 0
    }
}

impl Client {
    /// Returns the latch of this name for so many parties. The first operation reports a bad name.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::connect("mem:")?;
    /// client.latch("deploy-42", 1).arrive("shard-1").await?;
    /// # Ok(()) }
    /// ```
    pub fn latch(&self, name: impl Into<String>, count: u32) -> Latch {
        Latch {
            noun: Noun::new(self.engine(), name),
            count,
            kept: KEPT,
        }
    }
}

impl Latch {
    /// Sets how long the latch is kept after the latest arrival: 1 s to 30 days, seven days by default.
    pub fn kept(mut self, kept: Duration) -> Self {
        self.kept = kept;
        self
    }

    /// Returns the name; `None` for a malformed one, which the first operation reports.
    pub fn name(&self) -> Option<&str> {
        self.noun.as_str()
    }

    /// Checks now what the first operation would refuse.
    ///
    /// # Errors
    /// [`InvalidInput`] says what would be valid. Nothing is sent.
    pub fn validate(self) -> Result<Self, InvalidInput> {
        self.keys()?;
        Ok(self)
    }

    fn keys(&self) -> Result<LockKeys, InvalidInput> {
        let refused = |text: String| Err(InvalidInput::new(text));
        let longest = Duration::from_secs(30 * 24 * 60 * 60);
        if !(1..=PARTIES_MAX).contains(&self.count) {
            let count = self.count;
            return refused(format!(
                "a latch has 1 to {PARTIES_MAX} parties, and not {count}"
            ));
        }
        if !(Duration::from_secs(1)..=longest).contains(&self.kept) {
            let kept = self.kept;
            return refused(format!(
                "a latch is kept for 1 s to 30 days, and not {kept:?}"
            ));
        }
        self.noun.keys()
    }

    /// Arrives as this party, and returns how many are missing; 0 when the latch is open. The name has 1 to 200 bytes.
    ///
    /// # Waiting
    /// One request of two seconds at most; it is sent again when no reply came.
    ///
    /// # Cancel safety
    /// When dropped, the party may be counted; to arrive again counts it once.
    ///
    /// # Errors
    /// [`LatchError`]; it never fails because the latch is still closed.
    pub async fn arrive(&self, party: &str) -> Result<u32, LatchError> {
        let keys = &self.keys()?;
        if party.is_empty() || party.len() > PARTY_MAX {
            let text = format!("the name of a party has 1 to {PARTY_MAX} bytes");
            return Err(InvalidInput::new(text).into());
        }
        let engine = &self.noun.engine;
        let arrive = Arrive {
            keys,
            party,
            count: self.count,
            kept: self.kept,
            channel: &broadcast::channel_of(engine, NOUN, &keys.lock),
        };
        let outcome = match engine.ask(&arrive, OPERATOR_WITHIN).await {
            Err(error) if error.maybe_applied() => engine.ask(&arrive, OPERATOR_WITHIN).await,
            outcome => outcome,
        };
        match outcome {
            Ok(Arrived::Counted { left }) => Ok(left),
            Ok(Arrived::Excess) => Err(LatchError::Excess {
                name: self.noun.name()?,
                count: self.count,
            }),
            Ok(Arrived::Disagrees { count }) => Err(self.disagrees(count)?),
            Err(source) => Err(self.failed(source)?),
        }
    }

    /// Returns who has arrived.
    ///
    /// # Waiting
    /// One request of two seconds at most.
    ///
    /// # Cancel safety
    /// Safe: reading changes nothing.
    ///
    /// # Errors
    /// [`LatchError`]: it is not known who has arrived, or others wait for another number of parties.
    pub async fn state(&self) -> Result<LatchState, LatchError> {
        let read = self.read(&self.keys()?).await;
        read.or_else(|source| Err(self.failed(source)?))?
            .or_else(|count| Err(self.disagrees(count)?))
    }

    /// Waits until all have arrived, without a limit.
    ///
    /// # Waiting
    /// One message wakes all that wait. Without messages it reads once a second.
    ///
    /// # Cancel safety
    /// Safe: waiting changes nothing.
    ///
    /// # Errors
    /// As [`wait_within`](Latch::wait_within), but for the end of the limit. While it waits, a store that does not reply
    /// is asked again.
    pub async fn wait(&self) -> Result<(), LatchError> {
        self.wait_until(None).await
    }

    /// Waits until all have arrived, for at most `limit`.
    ///
    /// # Waiting
    /// Returns within `limit` and one request of two seconds.
    ///
    /// # Cancel safety
    /// Safe: waiting changes nothing.
    ///
    /// # Errors
    /// [`LatchError::StillClosed`] says who has arrived, and how many are missing.
    pub async fn wait_within(&self, limit: Duration) -> Result<(), LatchError> {
        let until = self.noun.engine.clock.now().plus(limit);
        self.wait_until(Some(until)).await
    }

    async fn wait_until(&self, until: Option<Moment>) -> Result<(), LatchError> {
        let keys = self.keys()?;
        let mut watch = Watch::new(&self.noun.engine, NOUN, &keys.lock, until);
        loop {
            watch.listens(OPERATOR_WITHIN).await;
            let read = self.read(&keys).await;
            let is_over = watch.is_over();
            match read {
                Ok(Ok(state)) if state.is_open() => return Ok(()),
                Ok(Ok(LatchState { arrived, left })) if is_over => {
                    let name = self.noun.name()?;
                    return Err(LatchError::StillClosed {
                        name,
                        arrived,
                        left,
                    });
                }
                Ok(Ok(_)) => watch.has_reply(),
                Ok(Err(count)) => return Err(self.disagrees(count)?),
                Err(source) if is_over => return Err(self.failed(source)?),
                Err(source) => {
                    if let Some(source) = watch.gives_up(source) {
                        return Err(self.failed(source)?);
                    }
                }
            }
            watch.pause(Duration::MAX).await;
        }
    }

    /// The state, or how many parties there are by the word of others.
    async fn read(&self, keys: &LockKeys) -> Result<Result<LatchState, u32>, StoreError> {
        let count = self.count;
        let inspect = InspectLatch { keys, count };
        let inspected = self.noun.engine.ask(&inspect, OPERATOR_WITHIN).await?;
        Ok(match inspected {
            InspectedLatch::Arrived { parties, left } => Ok(LatchState {
                arrived: parties,
                left,
            }),
            InspectedLatch::Disagrees { count } => Err(count),
        })
    }

    fn disagrees(&self, count: u32) -> Result<LatchError, InvalidInput> {
        let name = self.noun.name()?;
        Ok(LatchError::Disagrees { name, count })
    }

    fn failed(&self, source: StoreError) -> Result<LatchError, InvalidInput> {
        let name = self.noun.name()?;
        Ok(LatchError::Store { name, source })
    }
}
