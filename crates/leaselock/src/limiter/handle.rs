//! The limiter's handle.

use std::time::Duration;

use super::calls::{GiveBackPermits, LimiterError, PermitRequest, Take, Taken};
use super::rate::{CheckedRates, Rate};
use crate::base::error::{InvalidInput, NounFailure};
use crate::client::Client;
use crate::engine::services::leftover::Leftover;
use crate::engine::shared_state::noun::{Noun, ValidNoun, name_and_validate};

/// A rate limiter on one name: so many permits in a period, for all clients together.
///
/// It is a leaky bucket on the server's clock (the generic cell rate algorithm, ITU-T I.371). In any time `t` the clients
/// use at most `rate · t + burst` permits. Unused permits are kept up to the burst. A limiter may have several rates, and
/// each request must fit all of them.
///
/// A server whose clock goes forward, or that loses its data, allows one burst more at most. Those who wait at that moment
/// act at their moments beside newcomers, so their permits come on top.
///
/// The rate comes with each request, so nothing is set up, and a new rate holds at once. All clients of a name give the
/// same rate: each request is measured by the rate that it names.
///
/// A wait is a reservation: the store says when the caller may act, and the caller sleeps until then. Reservations are in
/// order of arrival, and none is moved. A wait that is dropped gives its reservation back.
///
/// A limiter is no lock: it holds nothing, and a mutex of the same name knows nothing of it. To limit too how many act at
/// the same time, acquire a [`Semaphore`](crate::Semaphore) first and then the limiter.
///
/// Not on a majority of servers: the sums of several majorities are not one sum.
///
/// # Examples
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leaselock::limiter::{Rate, RateDecision};
///
/// # let client = leaselock::Client::open("mem:")?;
/// let api = client.limiter("api", Rate::per_second(100).burst(20)).and(Rate::per_hour(1000));
/// match api.try_acquire().await? {
///     RateDecision::Allowed { left } => assert_eq!(left, 19),
///     RateDecision::Limited { retry_after } => println!("try again in {retry_after:?}"),
/// }
/// api.acquire_many(3).await?; // waits for its turn
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a limiter does nothing until permits are acquired"]
pub struct Limiter {
    noun: Noun,
    rates: Vec<Rate>,
}

/// What a limiter says to a caller that does not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a caller that is limited must not act"]
pub enum RateDecision {
    /// The caller may act now.
    Allowed {
        /// How many more permits are there now.
        left: u32,
    },
    /// The caller must not act. Nothing was used.
    Limited {
        /// When the limiter would allow it if no other client asked.
        retry_after: Duration,
    },
}

impl RateDecision {
    /// True if the caller may act now.
    pub fn is_allowed(&self) -> bool {
        matches!(self, RateDecision::Allowed { .. })
    }
}

impl Client {
    /// Returns the limiter of this name with this rate. The first operation reports a bad name or rate.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let mails = client.limiter("mails", leaselock::limiter::Rate::per_minute(10));
    /// mails.acquire().await?;
    /// # Ok(()) }
    /// ```
    pub fn limiter(&self, name: impl Into<String>, rate: Rate) -> Limiter {
        Limiter {
            noun: Noun::new(self.engine(), "limiter", name),
            rates: vec![rate],
        }
    }
}

impl Limiter {
    /// Adds another rate, which has another period. Each request must fit all rates, which are eight at most.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::limiter::Rate;
    ///
    /// let api = client.limiter("api", Rate::per_second(10)).and(Rate::per_day(10_000));
    /// api.acquire().await?;
    /// # Ok(()) }
    /// ```
    pub fn and(mut self, rate: Rate) -> Self {
        self.rates.push(rate);
        self
    }

    /// A request for one permit stands for all.
    fn checked(&self) -> Result<(), InvalidInput> {
        self.request(1).map(drop)
    }

    name_and_validate!(noun, checked);

    fn request(&self, cost: u32) -> Result<(ValidNoun, PermitRequest), InvalidInput> {
        let rate = CheckedRates::new(&self.rates)?;
        let burst = rate.burst();
        if !(1..=burst).contains(&cost) {
            let text =
                format!("one request asks for 1 to {burst} permits, the burst, and not {cost}");
            return Err(InvalidInput::new(text));
        }
        let limiter = self.noun.valid()?;
        let keys = limiter.keys.clone();
        Ok((limiter, PermitRequest { keys, rate, cost }))
    }

    /// Uses a permit if it is there now, and nothing otherwise, as [`try_acquire_many`](Limiter::try_acquire_many).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::limiter::{Rate, RateDecision};
    ///
    /// let logins = client.limiter("login/alice", Rate::per_minute(5));
    /// if let RateDecision::Limited { retry_after } = logins.try_acquire().await? {
    ///     println!("429, Retry-After: {}", retry_after.as_secs() + 1);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn try_acquire(&self) -> Result<RateDecision, LimiterError> {
        self.try_acquire_many(1).await
    }

    /// Takes `permits` if they are available now; otherwise takes none.
    ///
    /// It is refused while other callers wait, because their reservations count. One request of two seconds at most.
    ///
    /// # Cancel safety
    /// When dropped, the permits may count as used.
    ///
    /// # Errors
    /// [`LimiterError`]; that the rate is used up is not an error.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::limiter::Rate;
    ///
    /// let lines = client.limiter("export-lines", Rate::per_second(100));
    /// assert!(lines.try_acquire_many(60).await?.is_allowed());
    /// assert!(!lines.try_acquire_many(60).await?.is_allowed()); // nothing of it was used
    /// # Ok(()) }
    /// ```
    pub async fn try_acquire_many(&self, permits: u32) -> Result<RateDecision, LimiterError> {
        match self.take_now(permits).await? {
            Taken::Allowed { left, .. } => Ok(RateDecision::Allowed { left }),
            Taken::Limited { wait_us, .. } | Taken::Reserved { wait_us, .. } => {
                let retry_after = Duration::from_micros(wait_us);
                Ok(RateDecision::Limited { retry_after })
            }
        }
    }

    /// Uses a permit, and waits until it is there, as [`acquire_many`](Limiter::acquire_many).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::limiter::Rate;
    ///
    /// let api = client.limiter("api", Rate::per_second(100));
    /// for _ in 0..3 {
    ///     api.acquire().await?; // one request to the other service
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn acquire(&self) -> Result<(), LimiterError> {
        self.acquire_many(1).await
    }

    /// Uses a permit, and waits until it is there if that is within `limit`, as
    /// [`acquire_many_within`](Limiter::acquire_many_within).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::limiter::{LimiterError, Rate};
    /// use std::time::Duration;
    ///
    /// let api = client.limiter("api", Rate::per_minute(1));
    /// api.acquire().await?;
    /// let limited = api.acquire_within(Duration::from_secs(1)).await.unwrap_err(); // at once: it is a minute
    /// assert!(matches!(limited, LimiterError::TimedOut { .. }));
    /// # Ok(()) }
    /// ```
    pub async fn acquire_within(&self, limit: Duration) -> Result<(), LimiterError> {
        self.acquire_many_within(1, limit).await
    }

    /// Takes `permits`, and waits until they are available.
    ///
    /// # Waiting
    /// One request in all, of two seconds at most; it is sent again when no reply came. The caller sleeps from the reply
    /// on, so it never acts too early. When it wakes up too late, as after the machine was suspended, its permits are
    /// gone and it asks again. Too late is later than a whole burst takes, and at least a second.
    ///
    /// # Cancel safety
    /// Safe: what a dropped wait has reserved is given back in the background, if the store replies within a minute. If no
    /// later reservation exists, its permits are free again. If later ones exist, they keep their times, and the next new
    /// caller with the same or a smaller cost gets the freed time.
    ///
    /// # Errors
    /// As [`acquire_many_within`](Limiter::acquire_many_within). The longest wait is 30 days, and hours for rates with very many
    /// permits a period. A caller that would wait longer gets [`LimiterError::TimedOut`] at once.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::limiter::Rate;
    ///
    /// let lines = client.limiter("export-lines", Rate::per_second(5_000).burst(1_000));
    /// lines.acquire_many(200).await?; // a batch of 200 lines
    /// # Ok(()) }
    /// ```
    pub async fn acquire_many(&self, permits: u32) -> Result<(), LimiterError> {
        self.acquire_until(permits, None).await
    }

    /// Takes `permits`, and waits until they are available if that is within `limit`; otherwise it fails at once. See
    /// [`acquire_many`](Limiter::acquire_many).
    ///
    /// # Errors
    /// [`LimiterError::TimedOut`]: nothing was used or reserved. [`LimiterError::Store`]: the permits may count as used.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::limiter::Rate;
    ///
    /// let lines = client.limiter("export-lines", Rate::per_second(100));
    /// lines.acquire_many_within(50, std::time::Duration::from_secs(2)).await?;
    /// # Ok(()) }
    /// ```
    pub async fn acquire_many_within(
        &self,
        permits: u32,
        limit: Duration,
    ) -> Result<(), LimiterError> {
        self.acquire_until(permits, Some(limit)).await
    }

    async fn acquire_until(&self, cost: u32, limit: Option<Duration>) -> Result<(), LimiterError> {
        match self.take_within(cost, limit).await? {
            Taken::Allowed { .. } => Ok(()),
            Taken::Limited { wait_us, .. } | Taken::Reserved { wait_us, .. } => {
                let retry_after = Duration::from_micros(wait_us);
                let name = self.noun.valid()?.name;
                Err(LimiterError::TimedOut { name, retry_after })
            }
        }
    }

    /// Takes `cost` permits if they are available now.
    async fn take_now(&self, cost: u32) -> Result<Taken, LimiterError> {
        let (limiter, request) = self.request(cost)?;
        let take = Take {
            request: &request,
            id: "",
            longest_us: 0,
        };
        Ok(self.counted(cost, limiter.ask(&take).await?))
    }

    fn counted(&self, cost: u32, taken: Taken) -> Taken {
        let permits = &self.noun.engine.totals.nouns.permits;
        let outcome = match taken {
            Taken::Allowed { .. } => "allowed",
            Taken::Limited { .. } | Taken::Reserved { .. } => "limited",
        };
        permits.add_many(outcome, u64::from(cost));
        taken
    }

    /// Takes `cost` permits, and waits until they are available: `Allowed` then, `Limited` when that is not in time.
    async fn take_within(&self, cost: u32, limit: Option<Duration>) -> Result<Taken, LimiterError> {
        let (limiter, request) = self.request(cost)?;
        let (engine, longest) = (&self.noun.engine, request.rate.longest_wait());
        let (clock, tolerance) = (&engine.clock, request.rate.tolerance());
        let id = limiter.new_token()?;
        let until = limit.map(|limit| clock.now().plus(limit));
        let moment = limit.map_or(longest, |limit| limit.min(longest)); // it is no later
        let mut reservation = Leftover::new(engine, GiveBackPermits { request, id }, moment);
        loop {
            let left = until.map_or(longest, |until| clock.left(until).min(longest));
            let taken = reserve(&limiter, &mut reservation, left).await?;
            match taken {
                Taken::Reserved { wait_us, rate } => {
                    let moment = clock.now().plus(Duration::from_micros(wait_us));
                    clock.sleep_until(moment).await;
                    reservation.ends(); // its moment has come: there is nothing to give back
                    if clock.now().saturating_since(moment) <= tolerance {
                        return Ok(self.counted(cost, Taken::Allowed { left: 0, rate }));
                    }
                }
                decided => return Ok(self.counted(cost, decided)),
            }
        }
    }
}

/// Uses the permits, or reserves the moment at which they may be used. When the reply is lost it asks once more: a
/// reservation is then the same, and permits that the first request used may limit the second one. What a dropped caller
/// has reserved is given back in the background.
async fn reserve(
    limiter: &ValidNoun,
    reservation: &mut Leftover<GiveBackPermits>,
    longest: Duration,
) -> Result<Taken, NounFailure> {
    reservation.begins();
    let GiveBackPermits { request, id } = reservation.what();
    let take = Take {
        request,
        id: id.secret(),
        longest_us: u64::try_from(longest.as_micros()).unwrap_or(u64::MAX),
    };
    let is_lost = |failure: &NounFailure| failure.source.maybe_applied();
    let (outcome, was_lost) = match limiter.ask(&take).await {
        Err(failure) if is_lost(&failure) => match limiter.ask(&take).await {
            Ok(Taken::Limited { .. }) => (Err(failure), true),
            again => (again, true),
        },
        outcome => (outcome, false),
    };
    match &outcome {
        Ok(Taken::Reserved { .. }) => reservation.is_present(),
        Err(failure) if was_lost || is_lost(failure) => {}
        _ => reservation.ends(),
    }
    outcome
}

/// For the layers of `leaselock-tower`.
#[doc(hidden)]
impl Limiter {
    /// As [`acquire_many_within`](Limiter::acquire_many_within), or as [`try_acquire_many`](Limiter::try_acquire_many) for no wait.
    pub async fn take(&self, cost: u32, wait: Duration) -> Result<Taken, LimiterError> {
        match wait {
            Duration::ZERO => self.take_now(cost).await,
            wait => self.take_within(cost, Some(wait)).await,
        }
    }

    /// Returns the rates, in the order in which they were set.
    pub fn rates(&self) -> &[Rate] {
        &self.rates
    }
}
