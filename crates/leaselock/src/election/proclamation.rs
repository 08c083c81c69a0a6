//! The proclamation of a leader, which the client's own thread sends while the leader already works.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::calls::{Proclaim, Proclaimed};
use crate::base::backoff::Backoff;
use crate::base::clock::Clock;
use crate::base::error::{LostReason, StoreError};
use crate::base::fence::Fence;
use crate::engine::broadcast;
use crate::engine::lease::Lease;
use crate::engine::lease::deadlines::Id;
use crate::engine::lease::record::LeaseRecord;
use crate::engine::renewal::Renewal;
use crate::quorum::executor::Executor;

/// What the followers' channel is called.
pub(super) const NOUN: &str = "election";
/// The store keeps the record for seven days, so that a leader that leads for longer must write it again.
const WRITTEN_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// How often it reads whether the lease has ended.
const READ_EVERY: Duration = Duration::from_secs(60);
/// Pauses between two attempts while the store does not reply or refuses; the last one repeats.
const PAUSES_MS: &[u64] = &[20, 100, 500, 2000, 15_000];

/// The reply to the latest attempt: `None` before the first one, and an error only before the first success.
pub(super) type Outcome = Option<Result<(), StoreError>>;

/// Writes who leads, until the lease ends.
///
/// The same request twice does no harm. One that arrives after the resignation changes nothing, because the token no
/// longer holds the name.
pub(super) struct Proclamation {
    record: Arc<LeaseRecord>,
    id: Id,
    value: Arc<str>,
    term: Fence,
    channel: String,
    within: Duration,
    clock: Clock,
    store: Executor,
    renewal: Arc<Renewal>,
}

impl Proclamation {
    /// Starts to proclaim in the background. Returns where the outcome is written.
    pub(super) fn start(lease: &Lease, value: &Arc<str>, term: Fence) -> watch::Receiver<Outcome> {
        let (tell, outcome) = watch::channel(None);
        let background = lease.parts().0.started();
        let proclamation = Proclamation::new(lease, value, term);
        // A lease exists only once the thread was started.
        if let (Some(background), Some(proclamation)) = (background, proclamation) {
            drop(background.handle.spawn(proclamation.repeat(tell)));
        }
        outcome
    }

    pub(super) fn new(lease: &Lease, value: &Arc<str>, term: Fence) -> Option<Proclamation> {
        let (engine, record, id) = lease.parts();
        let background = engine.started()?;
        Some(Proclamation {
            record: Arc::clone(record),
            id,
            value: Arc::clone(value),
            term,
            channel: broadcast::channel_of(engine, NOUN, &record.resource.lock),
            within: engine.request_timeout(record.ttl()),
            clock: engine.clock.clone(),
            store: background.store.clone(),
            renewal: Arc::clone(&background.renewal),
        })
    }

    /// It reads now and then whether the lease has ended: to be told would wake the thread just when a leader resigns,
    /// before the resignation is sent.
    async fn repeat(self, tell: watch::Sender<Outcome>) {
        let (mut backoff, mut is_shown) = (Backoff::new(PAUSES_MS), false);
        let mut next = self.clock.now();
        while self.record.lost_by_now().is_none() {
            let now = self.clock.now();
            if now < next {
                self.clock.sleep_until(next.min(now.plus(READ_EVERY))).await;
                continue;
            }
            let pause = match self.send().await {
                Ok(Proclaimed::Shown) => {
                    (backoff, is_shown) = (Backoff::new(PAUSES_MS), true);
                    tell.send_replace(Some(Ok(())));
                    WRITTEN_EVERY
                }
                Ok(Proclaimed::Expired) => return self.ends(LostReason::KeyMissing),
                Ok(Proclaimed::Taken) => return self.ends(LostReason::TakenOver),
                Err(error) => {
                    tracing::warn!(name = %self.record.name, %error, "a leader is not proclaimed");
                    if !is_shown {
                        tell.send_replace(Some(Err(error)));
                    }
                    backoff.next()
                }
            };
            next = self.clock.now().plus(pause);
        }
    }

    pub(super) async fn send(&self) -> Result<Proclaimed, StoreError> {
        let proclaim = Proclaim {
            resource: &self.record.resource,
            token: &self.record.token,
            value: &self.value,
            term: self.term,
            channel: &self.channel,
        };
        self.store.ask(&proclaim, self.within).await
    }

    /// The store knows nothing of the lease: as after a renewal with that reply, it is lost.
    fn ends(&self, reason: LostReason) {
        self.record.refused(self.clock.now(), reason);
        self.renewal.check_now(self.id);
    }
}
