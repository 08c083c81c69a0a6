//! The handle of an election.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::calls::LEADERSHIP;
use super::mode::Leader;
use crate::base::InvalidInput;
use crate::base::error::{AcquireError, OperationError};
use crate::client::Client;
use crate::client::named::Named;
use crate::client::options::setters;
use crate::client::run::{RunError, run_under};
use crate::engine::guard::lease::{Lease, LeaseView};
use crate::engine::shared_state::noun::name_and_validate;

/// Followers read the value with each change, so it is an address and no state.
const VALUE_MAX: usize = 4096;
/// A pause after an error of the store, which has timeouts of its own.
const CAMPAIGN_AGAIN: Duration = Duration::from_secs(1);

/// An election on one name: one client at a time leads, and every client can see which one.
///
/// The leader is the holder of the [`Mutex`](crate::Mutex) of that name, and to campaign is to wait in its queue. So a
/// leader is excluded by, and excludes, every other lock of the name. A leader that crashed is replaced when its lease
/// ends, in a folder at once.
///
/// Not on a majority of servers, which have no one place for what a leader proclaims.
///
/// # Examples
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leaselock::Client::open("mem:")?;
/// let election = client.election("scheduler").value("10.0.0.5:8080");
/// let leading = election.campaign().await?;
/// leading.proclaimed().await?; // for those who read; the leader need not wait
/// let seen = client.election("scheduler").leader().await?.expect("we lead");
/// assert_eq!((seen.value.as_str(), seen.term), ("10.0.0.5:8080", leading.term()));
/// leading.release().await?; // the next campaigner leads in the same step
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "an election does nothing until a client campaigns or observes"]
pub struct Election {
    pub(crate) named: Named,
    value: Arc<str>,
}

impl Client {
    /// Returns the election of this name, with the client's default options. The first operation reports a bad name.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let leading = client.election("scheduler").value("this host").campaign().await?;
    /// # leading.release().await?;
    /// # Ok(()) }
    /// ```
    pub fn election(&self, name: impl Into<String>) -> Election {
        Election {
            named: Named::new(&self.state, &LEADERSHIP, name.into()),
            value: "".into(),
        }
    }
}

impl Election {
    setters!(named.options);

    /// Sets what followers read of this client when it leads, such as its address: at most 4096 bytes.
    pub fn value(mut self, value: impl Into<String>) -> Self {
        self.value = value.into().into();
        self
    }

    name_and_validate!(
        named,
        checked,
        "name",
        ": the name, the value, or an option."
    );

    fn checked(&self) -> Result<&Named, InvalidInput> {
        let (options, length) = (&self.named.options, self.value.len());
        let wrong = if length > VALUE_MAX {
            format!(
                "a leader's value of {length} bytes is too long: at most {VALUE_MAX}; give an address, and serve the rest there"
            )
        } else if options.fencing == Some(false) {
            "a leader's term is a fencing token: leave `fencing(false)` out".to_owned()
        } else if let Some(protocol) = options.foreign() {
            format!("an election has no protocol {protocol}: use the native one")
        } else {
            self.named.validate()?;
            return Ok(&self.named);
        };
        Err(InvalidInput::new(wrong))
    }

    /// Campaigns until this client leads, and waits as the options say: in the queue without a limit, unless set
    /// otherwise.
    ///
    /// Waiting and cancel safety are those of [`Mutex::acquire`](crate::Mutex::acquire): the leader's resignation and this
    /// grant are one step on the store.
    ///
    /// It returns with the grant. A second request tells the followers, and leaves at the same time in the background: the
    /// leader may work before they know of it ([`proclaimed`](Lease::proclaimed)).
    ///
    /// # Errors
    /// [`AcquireError`]: this client does not lead after any of them; every variant says what may be left behind.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let leading = client.election("scheduler").value("10.0.0.5:8080").campaign().await?;
    /// println!("leads in term {}", leading.term());
    /// leading.release().await?; // resigns: the next in the queue leads
    /// # Ok(()) }
    /// ```
    pub async fn campaign(&self) -> Result<Lease<Leader>, AcquireError> {
        let lease = self.checked()?.acquire().await?;
        Ok(Lease::leads(lease, &self.value))
    }

    /// Leads if the name is free and no campaigner is ahead; `Ok(None)` when it is not.
    ///
    /// One request, within the request timeout, which never joins the queue; otherwise as [`campaign`](Election::campaign).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let election = client.election("scheduler");
    /// match election.try_campaign().await? {
    ///     Some(leading) => leading.release().await?,
    ///     None => println!("follows {:?}", election.leader().await?),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn try_campaign(&self) -> Result<Option<Lease<Leader>>, AcquireError> {
        let lease = self.checked()?.try_acquire().await?;
        Ok(lease.map(|lease| Lease::leads(lease, &self.value)))
    }

    /// Campaigns for at most `limit`, as [`Mutex::acquire_within`](crate::Mutex::acquire_within); otherwise as
    /// [`campaign`](Election::campaign).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let limit = std::time::Duration::from_secs(5);
    /// let leading = client.election("scheduler").campaign_within(limit).await?;
    /// # leading.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn campaign_within(&self, limit: Duration) -> Result<Lease<Leader>, AcquireError> {
        let lease = self.checked()?.acquire_within(limit).await?;
        Ok(Lease::leads(lease, &self.value))
    }

    /// Runs `body` as the leader, once, as [`Mutex::run`](crate::Mutex::run): it campaigns, and resigns at its end.
    /// [`lead_until`](Election::lead_until) campaigns again.
    ///
    /// # Errors
    /// [`RunError`]: every variant says whether the body ran. One that returned `Ok` led to its end, unless the error is
    /// [`ReleasedLate`](RunError::ReleasedLate).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// # async fn migrate(_: leaselock::Fence) -> std::io::Result<()> { Ok(()) }
    /// let election = client.election("scheduler").value("this host");
    /// election.run(|leading| migrate(leading.term())).await?;
    /// # Ok(()) }
    /// ```
    pub async fn run<T, E, F, Fut>(&self, body: F) -> Result<T, RunError<E, T>>
    where
        F: FnOnce(LeaseView<Leader>) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        run_under(self.campaign().await?, body).await
    }

    /// Leads whenever it can, and runs `body` as the leader each time, until `stop` completes or a body returns `Ok`.
    ///
    /// After a loss the body is dropped at its next await, and it campaigns again; so it does a second after an error of
    /// the store that may pass. `Ok(None)` after `stop`. To drop it is as with [`run`](Election::run).
    ///
    /// # Waiting
    /// Without a limit, unless the options set one. After `stop` it resigns in the background: [`Client::close`] waits.
    ///
    /// # Errors
    /// [`RunError::Acquire`]: an error that a later campaign would meet again. [`RunError::Body`]: the body's own error.
    /// [`RunError::ReleasedLate`]: the body ended, but did not lead to its end.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// # async fn schedule(_: leaselock::Fence) -> std::io::Result<()> { Ok(()) }
    /// let stop = std::future::pending::<()>(); // or a signal
    /// let election = client.election("scheduler").value("this host");
    /// election.lead_until(stop, |leading| schedule(leading.term())).await?;
    /// # Ok(()) }
    /// ```
    pub async fn lead_until<T, E, S, F, Fut>(
        &self,
        stop: S,
        mut body: F,
    ) -> Result<Option<T>, RunError<E, T>>
    where
        S: Future,
        F: FnMut(LeaseView<Leader>) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let mut stop = pin!(stop);
        let clock = &self.named.state.engine.clock;
        loop {
            let led = async {
                match self.run(&mut body).await {
                    Err(RunError::Lost(_)) => Ok(None),
                    Err(RunError::Acquire(error)) if error.is_transient() => {
                        tracing::warn!(target: "leaselock", %error, "a campaign failed, and is repeated");
                        clock.sleep(CAMPAIGN_AGAIN).await;
                        Ok(None)
                    }
                    led => led.map(Some),
                }
            };
            tokio::select! {
                biased;
                _ = &mut stop => return Ok(None),
                led = led => if let Some(value) = led? {
                    return Ok(Some(value));
                },
            }
        }
    }
}
