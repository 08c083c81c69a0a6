//! Following who leads.

use std::time::Duration;

use leaselock_fence::Fence;

use super::calls::{Observe, Observed};
use super::leader::Leader;
use super::proclamation::NOUN;
use crate::base::clock::Moment;
use crate::base::error::InspectError;
use crate::client::named::Named;
use crate::engine::services::broadcast;
use crate::engine::services::broadcast::BroadcastListener;
use crate::engine::services::core::OPERATOR_WITHIN;
use crate::engine::values::resource::Resource;

/// A key is gone one millisecond after it expires.
const AFTER_END: Duration = Duration::from_millis(2);

/// Follows who leads an election, as a receiver of `tokio::sync::watch` follows a value.
///
/// It reads when a leader proclaims or resigns, when the leader's lease would end, and every 15 s; once a second where
/// messages do not arrive. It tells the latest state and may leave out what was between. It never tells a leader of a
/// smaller term than one that it has told.
///
/// Dropping it ends its subscription.
#[derive(Debug)]
pub struct LeaderObserver {
    named: Named,
    listener: Option<BroadcastListener>,
    /// What the caller was told last; `None` before the first time.
    told: Option<Option<Leader>>,
    /// The largest term that was told.
    highest: Option<Fence>,
    /// The time of the next read; `None`: now.
    next: Option<Moment>,
}

impl LeaderObserver {
    pub(super) fn new(named: Named) -> Self {
        LeaderObserver {
            named,
            listener: None,
            told: None,
            highest: None,
            next: None,
        }
    }

    /// Returns the leader that the latest [`changed`](LeaderObserver::changed) has found; `None` when no client leads.
    ///
    /// No request is sent: the leader may have changed since. Only the leader itself knows that it leads.
    pub fn current(&self) -> Option<&Leader> {
        self.told.as_ref()?.as_ref()
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
    /// [`InspectError`]: it is not known who leads, and [`current`](LeaderObserver::current) stays as it was. Call again:
    /// the next read follows after a second.
    pub async fn changed(&mut self) -> Result<(), InspectError> {
        let resource = self.named.resource()?;
        loop {
            self.due().await;
            let heard = self.listens(&resource).await;
            let observed = match self.read(&resource).await {
                Ok(observed) => observed,
                Err(error) => {
                    self.read_again_in(broadcast::read_every(false));
                    return Err(error);
                }
            };
            self.schedule(heard, observed.remaining_ms);
            if self.take(observed.leader) {
                return Ok(());
            }
        }
    }

    /// Waits for the next reason to read. A reason stays until a read was answered.
    async fn due(&mut self) {
        let (Some(next), Some(listener)) = (self.next, &self.listener) else {
            return;
        };
        listener.told_or(next).await;
        self.next = None;
    }

    /// Subscribes where the name lies now: what changes after the read that follows is heard.
    async fn listens(&mut self, resource: &Resource) -> bool {
        let engine = &self.named.state.engine;
        let listener = self
            .listener
            .get_or_insert_with(|| BroadcastListener::new(engine, NOUN, &resource.lock));
        listener.listens(broadcast::SUBSCRIBED_WITHIN).await
    }

    async fn read(&self, resource: &Resource) -> Result<Observed, InspectError> {
        let engine = &self.named.state.engine;
        let observed = engine.ask(&Observe { resource }, OPERATOR_WITHIN).await?;
        Ok(observed)
    }

    fn schedule(&mut self, heard: bool, remaining_ms: Option<u64>) {
        let usual = broadcast::read_every(heard);
        let ends = remaining_ms.map(|ms| Duration::from_millis(ms) + AFTER_END);
        self.read_again_in(ends.map_or(usual, |ends| ends.min(usual)));
    }

    fn read_again_in(&mut self, pause: Duration) {
        self.next = Some(self.named.state.engine.clock.now().plus(pause));
    }

    /// Notes what was read; true if it is to be told. A store that lost its data may show a leader of earlier.
    fn take(&mut self, leader: Option<Leader>) -> bool {
        let leader = leader.filter(|leader| Some(leader.term) >= self.highest);
        if let Some(leader) = &leader {
            self.highest = Some(leader.term);
        }
        let is_new = self.told.as_ref() != Some(&leader);
        self.told = Some(leader);
        is_new
    }
}
