//! Reading and following who leads.

use std::time::Duration;

use leaselock_fence::Fence;

use super::calls::{Observe, Proclamation};
use super::handle::Election;
use super::mode::NOUN;
use crate::base::error::RequestError;
use crate::client::named::Named;
use crate::engine::services::{OPERATOR_WITHIN, broadcast};
use crate::engine::shared_state::noun::Watch;

/// A key is gone one millisecond after it expires.
const AFTER_END: Duration = Duration::from_millis(2);

/// Follows who leads an election, as a receiver of `tokio::sync::watch` follows a value.
///
/// It reads when a leader proclaims or resigns, when the leader's lease would end, and every 15 s; once a second where
/// messages do not arrive. It reports the latest state and may skip intermediate ones. Terms that it reports never
/// decrease.
///
/// Dropping it ends its subscription.
#[derive(Debug)]
#[must_use = "an observer reads nothing until `changed` is called"]
pub struct LeaderObserver {
    named: Named,
    watch: Option<Watch>,
    /// What the caller was told last; `None` before the first time.
    latest: Option<Option<Proclamation>>,
    /// The largest term that was told.
    highest: Option<Fence>,
}

impl Election {
    /// Returns who leads; `Ok(None)` when no client does, also while a new leader has not proclaimed itself yet. One request
    /// of two seconds at most.
    ///
    /// # Errors
    /// [`RequestError`]: it is not known who leads.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// if let Some(leader) = client.election("scheduler").leader().await? {
    ///     println!("{} leads in term {}", leader.value, leader.term);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn leader(&self) -> Result<Option<Proclamation>, RequestError> {
        let resource = &self.named.resource()?;
        let engine = &self.named.state.engine;
        let (leader, _) = engine.ask(&Observe { resource }, OPERATOR_WITHIN).await?;
        Ok(leader)
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
    /// # leading.release().await?;
    /// # Ok(()) }
    /// ```
    pub fn observe(&self) -> LeaderObserver {
        LeaderObserver {
            named: self.named.clone(),
            watch: None,
            latest: None,
            highest: None,
        }
    }
}

impl LeaderObserver {
    /// Returns the leader that the latest [`changed`](LeaderObserver::changed) has found; `None` when no client leads.
    ///
    /// No request is sent: the leader may have changed since. Only the leader itself knows that it leads.
    pub fn current(&self) -> Option<&Proclamation> {
        self.latest.as_ref()?.as_ref()
    }

    /// Waits until another leader leads than the one that was told last, or none. The first call returns who leads now.
    ///
    /// # Waiting
    /// Without a limit. A change is told within two round trips after the leader has proclaimed; that a leader has crashed
    /// is told when its lease ends, in a folder at once.
    ///
    /// # Cancel safety
    /// Safe: a change in between is told by the next call.
    ///
    /// # Errors
    /// [`RequestError`]: it is not known who leads, and [`current`](LeaderObserver::current) stays as it was. Call again:
    /// the next read follows after a second.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let mut observer = client.election("scheduler").observe();
    /// observer.changed().await?; // who leads now; from then on each change
    /// println!("{:?}", observer.current());
    /// # Ok(()) }
    /// ```
    pub async fn changed(&mut self) -> Result<(), RequestError> {
        let resource = &self.named.resource()?;
        let engine = &self.named.state.engine;
        let watch = self
            .watch
            .get_or_insert_with(|| Watch::new(engine, NOUN, &resource.lock, None));
        loop {
            watch.due().await;
            watch.listens(broadcast::SUBSCRIBED_WITHIN).await;
            let (leader, rest) = match engine.ask(&Observe { resource }, OPERATOR_WITHIN).await {
                Ok(observed) => observed,
                Err(error) => {
                    watch.reads_within(broadcast::read_every(false));
                    return Err(error.into());
                }
            };
            watch.reads_within(rest.map_or(Duration::MAX, |rest| rest + AFTER_END));
            // A store that lost its data may show a leader of earlier.
            let leader = leader.filter(|leader| Some(leader.term) >= self.highest);
            if let Some(leader) = &leader {
                self.highest = Some(leader.term);
            }
            if self.latest.as_ref() != Some(&leader) {
                self.latest = Some(leader);
                return Ok(());
            }
        }
    }
}
