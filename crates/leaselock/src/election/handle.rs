//! The handle of an election.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::calls::Observe;
use super::kind::LEADERSHIP;
use super::leader::Leader;
use super::leadership::Leadership;
use super::observer::LeaderObserver;
use crate::base::error::{AcquireError, InvalidInput, RequestError};
use crate::client::Client;
use crate::client::named::Named;
use crate::client::options::setters;
use crate::client::run::{RunError, RunResult, run_under};
use crate::engine::guard::lease::{Lease, LeaseView};
use crate::engine::services::core::OPERATOR_WITHIN;
use crate::engine::shared_state::noun::name_and_validate;

/// Followers read the value with each change, so it is an address and no state.
const VALUE_MAX: usize = 4096;

/// An election on one name: one client at a time leads, and every client can see which one.
///
/// The leader is the holder of the [`Mutex`](crate::Mutex) of that name, and to campaign is to wait in its queue. So a
/// leader is excluded by, and excludes, every other lock of the name. A leader that crashed is replaced when its lease
/// ends, in a folder at once.
///
/// Not on a majority of servers, which have no one place for what a leader proclaims.
/// An `Election` has no state of its own: clone it, share it, keep it. Its setters take and return the value.
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
/// leading.resign().await?; // the next campaigner leads in the same step
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
    /// # leading.resign().await?;
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

    /// Refuses what an election cannot have.
    fn checked(&self) -> Result<&Named, InvalidInput> {
        let options = &self.named.options;
        let refused = |text: String| Err(InvalidInput::new(text));
        if self.value.len() > VALUE_MAX {
            let length = self.value.len();
            return refused(format!(
                "a leader's value of {length} bytes is too long: at most {VALUE_MAX}; give an address, and serve the rest there"
            ));
        }
        if options.fencing == Some(false) {
            let text = "a leader's term is a fencing token: leave `fencing(false)` out";
            return refused(text.to_owned());
        }
        if !options.protocol.is_native() {
            return refused(format!(
                "an election has no protocol {}: use the native one",
                options.protocol
            ));
        }
        self.named.validate()?;
        Ok(&self.named)
    }

    /// Campaigns until this client leads, and waits as the options say: in the queue without a limit, unless set
    /// otherwise.
    ///
    /// # Waiting
    /// In the queue of the mutex of that name, first come, first served within a priority. The leader's resignation and
    /// this grant are one step on the store. Fails after 2 s when the store never replied.
    ///
    /// It returns with the grant. A second request tells the followers, and leaves at the same time in the background: the
    /// leader may work before they know of it ([`Leadership::proclaimed`]).
    ///
    /// # Cancel safety
    /// Safe: a dropped campaign leaves nothing in the queue, and a grant that the caller no longer awaits goes to the
    /// next campaigner. The position in the queue is lost.
    ///
    /// # Errors
    /// [`AcquireError`]: this client does not lead after any of them; every variant says what may be left behind.
    pub async fn campaign(&self) -> Result<Leadership, AcquireError> {
        let lease = self.checked()?.acquire().await?;
        Ok(Leadership::begin(lease, &self.value))
    }

    /// Leads if the name is free and no campaigner is ahead; `Ok(None)` when it is not.
    ///
    /// # Waiting
    /// One request, within the request timeout. Never joins the queue.
    ///
    /// # Cancel safety
    /// As [`campaign`](Election::campaign).
    ///
    /// # Errors
    /// As [`campaign`](Election::campaign); that another client leads is not an error.
    pub async fn try_campaign(&self) -> Result<Option<Leadership>, AcquireError> {
        let lease = self.checked()?.try_acquire().await?;
        Ok(lease.map(|lease| Leadership::begin(lease, &self.value)))
    }

    /// Campaigns for at most `limit`.
    ///
    /// # Waiting
    /// Returns within `limit` and one request timeout, whatever the network does.
    ///
    /// # Cancel safety
    /// As [`campaign`](Election::campaign).
    ///
    /// # Errors
    /// [`AcquireError::StillBusy`] when other clients held the name to the end; this attempt has no queue entry then.
    pub async fn campaign_within(&self, limit: Duration) -> Result<Leadership, AcquireError> {
        let lease = self.checked()?.acquire_within(limit).await?;
        Ok(Leadership::begin(lease, &self.value))
    }

    /// Runs `body` as the leader.
    ///
    /// Campaigns as [`campaign`](Election::campaign) does, and stops the body when the leadership is lost. Resigns on
    /// success, on an early return inside the body and on panic. The term is the [`fence`](LeaseView::fence) of the view.
    ///
    /// # Cancel safety
    /// Safe: the body is dropped, and the client resigns in the background.
    ///
    /// # Errors
    /// [`RunError::Acquire`]: the body did not begin. [`RunError::Lost`]: the body was stopped.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let election = client.election("scheduler").value("this host");
    /// let ran = election.run(|leading| async move { leading.fence() }).await?;
    /// assert!(ran.value.is_some() && ran.released.is_ok());
    /// # Ok(()) }
    /// ```
    pub async fn run<T, F, Fut>(&self, body: F) -> Result<RunResult<T>, RunError>
    where
        F: FnOnce(LeaseView) -> Fut,
        Fut: Future<Output = T>,
    {
        let leadership = self.campaign().await?;
        run_under(Lease::from(leadership), body).await
    }

    /// Returns who leads; `Ok(None)` when no client does, also while a new leader has not proclaimed itself yet.
    ///
    /// # Waiting
    /// One request of two seconds at most.
    ///
    /// # Cancel safety
    /// Safe: reading changes nothing.
    ///
    /// # Errors
    /// [`RequestError`]: it is not known who leads.
    pub async fn leader(&self) -> Result<Option<Leader>, RequestError> {
        let resource = &self.named.resource()?;
        let engine = &self.named.state.engine;
        let observed = engine.ask(&Observe { resource }, OPERATOR_WITHIN).await?;
        Ok(observed.leader)
    }

    /// Returns an observer, which follows who leads. Nothing is sent before its first call.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let mut observer = client.election("scheduler").observe();
    /// observer.changed().await?; // the first time: who leads now
    /// assert!(observer.current().is_none());
    /// let leading = client.election("scheduler").value("this host").campaign().await?;
    /// observer.changed().await?;
    /// assert_eq!(observer.current().map(|leader| leader.term), Some(leading.term()));
    /// # leading.resign().await?;
    /// # Ok(()) }
    /// ```
    pub fn observe(&self) -> LeaderObserver {
        LeaderObserver::new(self.named.clone())
    }
}
