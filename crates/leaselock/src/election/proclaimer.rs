//! The proclamation of a leader, which the client's own thread sends while the leader already works.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use leaselock_fence::Fence;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::calls::Proclaim;
use crate::base::backoff::Backoff;
use crate::base::{Clock, Moment, StoreError, hold};
use crate::engine::guard::lease::Lease;
use crate::engine::guard::lease::handle::Granted;
use crate::engine::services::renewal::Renewal;
use crate::engine::services::{Id, LeaseRecord, broadcast};
use crate::engine::values::grant::StepReply;
use crate::quorum::executor::Executor;

/// What the followers' channel is called.
pub(super) const NOUN: &str = "election";
/// The unit of the times below.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// For how much longer than the lease the store keeps the record. A leader that leads for longer writes it again.
const KEPT_BEYOND: Duration = DAY.saturating_mul(7);
/// It is written again when the store would keep it for less than this beyond the lease: once a day.
const KEPT_AT_LEAST: Duration = DAY.saturating_mul(6);
/// Pauses between two attempts while the store does not reply or refuses; the last one repeats.
const PAUSES_MS: &[u64] = &[20, 100, 500, 2000, 15_000];

/// The reply to the latest attempt: `None` before the first one, and an error only before the first success.
pub(super) type WriteOutcome = Option<Result<(), StoreError>>;

/// Writes who leads, and again with a renewal before the store forgets it.
///
/// The same request twice does no harm. One that arrives after the resignation changes nothing, because the token no
/// longer holds the name.
pub(super) struct Proclaimer {
    /// The lease stores the hook that writes again. So the hook must not keep the lease.
    record: Weak<LeaseRecord>,
    id: Id,
    value: Arc<str>,
    term: Fence,
    channel: String,
    within: Duration,
    clock: Clock,
    thread: Handle,
    store: Executor,
    renewal: Arc<Renewal>,
    /// Until when the store keeps what was written last.
    kept_until: Mutex<Moment>,
    tell: watch::Sender<WriteOutcome>,
}

impl Proclaimer {
    /// Starts to proclaim in the background. Returns where the outcome is written.
    pub(super) fn start(lease: &Lease, value: &Arc<str>) -> watch::Receiver<WriteOutcome> {
        let (tell, outcome) = watch::channel(None);
        // A lease exists only once the thread was started.
        if let Some(proclaimer) = Proclaimer::new(lease, value, tell) {
            let proclaimer = Arc::new(proclaimer);
            lease.on_deadline(move |deadline| proclaimer.lasts_beyond(deadline));
        }
        outcome
    }

    pub(super) fn new<M>(
        lease: &Lease<M>,
        value: &Arc<str>,
        tell: watch::Sender<WriteOutcome>,
    ) -> Option<Proclaimer> {
        let (engine, record, id) = lease.parts();
        let background = engine.started()?;
        Some(Proclaimer {
            record: Arc::downgrade(record),
            id,
            value: Arc::clone(value),
            term: Granted::of(record.fence),
            channel: broadcast::channel_of(engine, NOUN, &record.resource.lock),
            within: engine.request_timeout(record.ttl()),
            clock: engine.clock.clone(),
            thread: background.handle.clone(),
            store: background.store.clone(),
            renewal: Arc::clone(&background.renewal),
            kept_until: Mutex::new(Moment::from_nanos(0)),
            tell,
        })
    }

    /// Writes the record, unless the store keeps it for long enough beyond this deadline.
    fn lasts_beyond(self: &Arc<Self>, deadline: Moment) {
        let mut kept_until = hold(&self.kept_until);
        if *kept_until < deadline.plus(KEPT_AT_LEAST) {
            *kept_until = deadline.plus(KEPT_BEYOND);
            drop(kept_until);
            drop(self.thread.spawn(Arc::clone(self).repeat()));
        }
    }

    /// Writes the record once, however many attempts that takes, unless the lease ends before.
    async fn repeat(self: Arc<Self>) {
        let mut backoff = Backoff::new(PAUSES_MS);
        let held = |record: &Arc<LeaseRecord>| record.lost_by_now().is_none();
        while let Some(record) = self.record.upgrade().filter(held) {
            match self.send(&record).await {
                Ok(Ok(())) => return self.tell(Ok(())),
                Ok(Err(reason)) => {
                    // The store knows nothing of the lease: as after a renewal with that reply, it is lost.
                    record.refused(self.clock.now(), reason);
                    return self.renewal.check_now(self.id);
                }
                Err(error) => {
                    tracing::warn!(target: "leaselock", lock = %record.name, %error, "a leader is not proclaimed");
                    self.tell(Err(error));
                }
            }
            drop(record); // the pause keeps no lease
            self.clock.sleep(backoff.next()).await;
        }
    }

    pub(super) async fn send(&self, record: &LeaseRecord) -> Result<StepReply, StoreError> {
        let kept_until = *hold(&self.kept_until);
        let proclaim = Proclaim {
            resource: &record.resource,
            token: &record.token,
            value: &self.value,
            term: self.term,
            kept: kept_until.saturating_since(self.clock.now()),
            channel: &self.channel,
        };
        self.store.ask(&proclaim, self.within).await
    }

    fn tell(&self, outcome: Result<(), StoreError>) {
        self.tell.send_if_modified(|known| {
            let is_news = !matches!(known, Some(Ok(())));
            if is_news {
                *known = Some(outcome);
            }
            is_news
        });
    }
}
