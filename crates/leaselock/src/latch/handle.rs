//! The latch's handle.

use std::time::Duration;

use super::calls::{Arrive, InspectLatch, LatchState};
use super::error::LatchError;
use crate::base::{InvalidInput, Moment, span};
use crate::client::Client;
use crate::engine::shared_state::noun::{Noun, ValidNoun, name_and_validate};

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
/// Not available on a majority of servers: several counts are not one count.
///
/// # Examples
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leaselock::Client::open("mem:")?;
/// let deployed = client.latch("deploy-42", 2);
/// assert_eq!(deployed.arrive("shard-1").await?, 1); // one is missing
/// assert_eq!(deployed.arrive("shard-2").await?, 0);
/// deployed.wait().await?; // open, also for later callers
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a latch does nothing until a party arrives or waits"]
pub struct Latch {
    pub(crate) noun: Noun,
    count: u32,
    kept: Duration,
}

impl Client {
    /// Returns the latch of this name for so many parties. The first operation reports a bad name.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// client.latch("deploy-42", 1).arrive("shard-1").await?;
    /// # Ok(()) }
    /// ```
    pub fn latch(&self, name: impl Into<String>, count: u32) -> Latch {
        Latch {
            noun: Noun::new(self.engine(), "latch", name),
            count,
            kept: KEPT,
        }
    }
}

impl Latch {
    /// Sets how long the latch is kept after the latest arrival: a minute to 30 days, seven days by default.
    pub fn keep_for(mut self, kept: Duration) -> Self {
        self.kept = kept;
        self
    }

    name_and_validate!(noun, checked);

    fn checked(&self) -> Result<ValidNoun, InvalidInput> {
        let longest = Duration::from_secs(30 * 24 * 60 * 60);
        let (count, kept) = (self.count, self.kept);
        let wrong = if !(1..=PARTIES_MAX).contains(&count) {
            format!("a latch has 1 to {PARTIES_MAX} parties, and not {count}")
        } else if !(Duration::from_secs(60)..=longest).contains(&kept) {
            format!(
                "a latch is kept for 1 min to 30 days, and not {}",
                span(kept)
            )
        } else {
            return self.noun.valid();
        };
        Err(InvalidInput::new(wrong))
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
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let deployed = client.latch("deploy-42", 2);
    /// assert_eq!(deployed.arrive("shard-1").await?, 1);
    /// assert_eq!(deployed.arrive("shard-1").await?, 1); // the same party counts once
    /// # Ok(()) }
    /// ```
    pub async fn arrive(&self, party: &str) -> Result<u32, LatchError> {
        let latch = self.checked()?;
        if party.is_empty() || party.len() > PARTY_MAX {
            let text = format!("the name of a party has 1 to {PARTY_MAX} bytes");
            return Err(InvalidInput::new(text).into());
        }
        let arrive = Arrive {
            keys: &latch.keys,
            party,
            count: self.count,
            kept: self.kept,
            channel: &latch.channel(),
        };
        let asked = match latch.ask(&arrive).await {
            Err(failure) if failure.source.maybe_applied() => latch.ask(&arrive).await,
            asked => asked,
        };
        let left = asked?.map_err(self.mismatch(&latch))?;
        if left.is_some() {
            latch.engine.totals.nouns.arrivals.add("latch");
        }
        let (name, count) = (latch.name, self.count);
        left.ok_or(LatchError::Excess { name, count })
    }

    /// Returns who has arrived, by one request of two seconds at most.
    ///
    /// # Errors
    /// [`LatchError`]: it is not known who has arrived, or others wait for another number of parties.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let deployed = client.latch("deploy-42", 2);
    /// deployed.arrive("shard-1").await?;
    /// let state = deployed.state().await?;
    /// assert_eq!((state.arrived.len(), state.left), (1, 1));
    /// # Ok(()) }
    /// ```
    pub async fn state(&self) -> Result<LatchState, LatchError> {
        let latch = self.checked()?;
        let read = latch.ask(&self.inspect(&latch)).await?;
        read.map_err(self.mismatch(&latch))
    }

    /// Waits until all have arrived, without a limit.
    ///
    /// # Waiting
    /// One message wakes all that wait. Without messages it reads once a second.
    ///
    /// # Errors
    /// As [`wait_within`](Latch::wait_within), but for the end of the limit. While it waits, a store that does not reply
    /// is asked again.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let deployed = client.latch("deploy-42", 1);
    /// let waits = tokio::spawn({
    ///     let deployed = deployed.clone();
    ///     async move { deployed.wait().await }
    /// });
    /// deployed.arrive("shard-1").await?;
    /// waits.await??;
    /// # Ok(()) }
    /// ```
    pub async fn wait(&self) -> Result<(), LatchError> {
        self.wait_until(None).await
    }

    /// Waits until all have arrived, for at most `limit` and one request of two seconds. See [`wait`](Latch::wait).
    ///
    /// # Errors
    /// [`LatchError::TimedOut`] says who has arrived, and how many are missing.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::latch::LatchError;
    ///
    /// let deployed = client.latch("deploy-42", 2);
    /// deployed.arrive("shard-1").await?;
    /// let limit = std::time::Duration::from_millis(10);
    /// match deployed.wait_within(limit).await {
    ///     Err(LatchError::TimedOut { arrived, left, .. }) => println!("{left} missing, there are {arrived:?}"),
    ///     outcome => outcome?,
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn wait_within(&self, limit: Duration) -> Result<(), LatchError> {
        let until = self.noun.engine.clock.now().plus(limit);
        self.wait_until(Some(until)).await
    }

    async fn wait_until(&self, until: Option<Moment>) -> Result<(), LatchError> {
        let latch = self.checked()?;
        let clock = &self.noun.engine.clock;
        let start = clock.now();
        let is_open = |reply: Result<LatchState, u32>, is_over| {
            let state = reply.map_err(self.mismatch(&latch))?;
            match state.left {
                0 => Ok(Some(())),
                left if is_over => Err(LatchError::TimedOut {
                    name: latch.name.clone(),
                    waited: clock.now().saturating_since(start),
                    arrived: state.arrived,
                    left,
                }),
                _ => Ok(None),
            }
        };
        latch.wait_for(&self.inspect(&latch), until, is_open).await
    }

    fn inspect<'a>(&self, latch: &'a ValidNoun) -> InspectLatch<'a> {
        let (keys, count) = (&latch.keys, self.count);
        InspectLatch { keys, count }
    }

    /// Others say that there are so many parties.
    fn mismatch(&self, latch: &ValidNoun) -> impl Fn(u32) -> LatchError {
        let (name, ours) = (latch.name.clone(), self.count);
        move |theirs| LatchError::Mismatch {
            name: name.clone(),
            ours,
            theirs,
        }
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use super::*;

    #[test]
    fn a_latch_is_kept_for_longer_than_a_waiter_pauses_that_hears_no_message() {
        let client = Client::open("mem:").unwrap();
        let kept = |seconds| {
            client
                .latch("phase", 1)
                .keep_for(Duration::from_secs(seconds))
        };
        assert!(kept(59).validate().is_err());
        assert!(kept(60).validate().is_ok());
    }
}
