//! The way in which a leader holds, and its proclamation, which the client's own thread sends while the leader already works.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use leaselock_fence::Fence;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::calls::Proclaim;
use crate::base::backoff::Backoff;
use crate::base::error::LeaseError;
use crate::base::{Clock, Moment, StoreError, hold};
use crate::engine::guard::lease::handle::{Granted, modes};
use crate::engine::guard::lease::{Lease, LeaseView};
use crate::engine::services::renewal::Renewal;
use crate::engine::services::{Id, LeaseRecord, broadcast};
use crate::engine::values::grant::StepReply;
use crate::quorum::executor::Executor;

/// What the followers' channel is called.
pub(super) const NOUN: &str = "election";
/// For how much longer than the lease the store keeps the record. A leader that leads for longer writes it again.
const KEPT_BEYOND: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// It is written again when the store would keep it for less than this beyond the lease: once an hour, because a store may
/// lose it alone.
const KEPT_AT_LEAST: Duration = Duration::from_secs(167 * 60 * 60);
/// Pauses between two attempts while the store does not reply or refuses; the last one repeats.
const PAUSES_MS: &[u64] = &[20, 100, 500, 2000, 15_000];

/// The leader of an [`Election`](crate::election::Election).
///
/// It leads from the grant on. Followers read its value one request later: [`proclaimed`](Lease::proclaimed) waits for
/// that. Its lease is [lost](Lease::lost) before another client can lead. To resign is to [`release`](Lease::release) it.
#[derive(Debug, Clone)]
pub struct Leader {
    value: Arc<str>,
    proclaimed: watch::Receiver<WriteOutcome>,
}

modes! {
    Leader: Fence;
}

impl Lease<Leader> {
    /// Leads, and tells the followers in the background.
    pub(super) fn leads(lease: Lease, value: &Arc<str>) -> Self {
        let (tell, proclaimed) = watch::channel(None);
        // A lease exists only once the thread was started.
        if let Some(proclaimer) = Proclaimer::new(&lease, value, tell) {
            let proclaimer = Arc::new(proclaimer);
            lease.on_deadline(move |deadline| proclaimer.lasts_beyond(deadline));
        }
        lease.parts().1.note("leader_changed", || value.to_string());
        let value = Arc::clone(value);
        lease.held_as(Leader { value, proclaimed })
    }

    /// Returns the number of this leadership: its fencing token, larger with each leader.
    pub fn term(&self) -> Fence {
        self.fence()
    }

    /// Returns what followers read, unless its owner has campaigned again with another value.
    pub fn value(&self) -> &str {
        &self.known().value
    }

    /// Waits until every client can read who leads.
    ///
    /// A leader need not wait for it: what a client reads may be over anyway, and only the leader knows that it leads.
    ///
    /// # Waiting
    /// For the reply to one request, which has left by the time [`campaign`](crate::election::Election::campaign) returns:
    /// within one request timeout.
    ///
    /// # Cancel safety
    /// Safe: the client proclaims in the background, whether anyone waits or not.
    ///
    /// # Errors
    /// [`LeaseError::Lost`]: it leads no more. Any other: this client leads, and followers may not see it yet. It
    /// proclaims again until the store has confirmed it; a later call returns the latest outcome.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let election = client.election("scheduler").value("10.0.0.5:8080");
    /// let leading = election.campaign().await?;
    /// leading.proclaimed().await?;
    /// assert!(election.leader().await?.is_some());
    /// # leading.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn proclaimed(&self) -> Result<(), LeaseError> {
        let mut proclaimed = self.known().proclaimed.clone();
        let outcome = tokio::select! {
            // An error: the lease has ended.
            outcome = proclaimed.wait_for(Option::is_some) => outcome.ok().and_then(|told| told.clone()),
            lost = self.lost() => return Err(lost.into()),
        };
        match outcome {
            Some(Ok(())) => Ok(()),
            Some(Err(source)) if self.is_held() => Err(LeaseError::from_store(self.name(), source)),
            _ => Err(self.lost().await.into()),
        }
    }
}

impl LeaseView<Leader> {
    /// Returns the number of this leadership: its fencing token, larger with each leader.
    pub fn term(&self) -> Fence {
        self.fence()
    }
}

/// The reply to the latest attempt: `None` before the first one, and an error only before the first success.
type WriteOutcome = Option<Result<(), StoreError>>;

/// Writes who leads, and again with a renewal: before the store forgets it, and over another connection, behind which
/// another server may lack it.
///
/// The same request twice does no harm. One that arrives after the resignation changes nothing, because the token no
/// longer holds the name.
pub(super) struct Proclaimer {
    /// The lease stores the hook that writes again. So the hook must not keep the lease.
    record: Weak<LeaseRecord>,
    id: Id,
    channel: String,
    within: Duration,
    clock: Clock,
    thread: Handle,
    store: Executor,
    renewal: Arc<Renewal>,
    /// Until when the store keeps what was written last, and over which connection that was.
    written: Mutex<(Moment, Option<u64>)>,
    tell: watch::Sender<WriteOutcome>,
}

impl Proclaimer {
    pub(super) fn new<M>(
        lease: &Lease<M>,
        value: &Arc<str>,
        tell: watch::Sender<WriteOutcome>,
    ) -> Option<Proclaimer> {
        let (engine, record, id) = lease.parts();
        let background = engine.started()?;
        *hold(&record.proclaims) = Some(Arc::clone(value));
        Some(Proclaimer {
            record: Arc::downgrade(record),
            id,
            channel: broadcast::channel_of(engine, NOUN, &record.held.resource.lock),
            within: engine.request_timeout(record.ttl()),
            clock: engine.clock.clone(),
            thread: background.handle.clone(),
            store: background.store.clone(),
            renewal: Arc::clone(&background.renewal),
            written: Mutex::new((Moment::from_nanos(0), None)),
            tell,
        })
    }

    /// Writes the record, unless the server has it for long enough beyond this deadline.
    fn lasts_beyond(self: &Arc<Self>, deadline: Moment) {
        let over = self.store.epoch().map(|made| made.max(1)); // the first one is made for this request
        let mut written = hold(&self.written);
        if written.0 < deadline.plus(KEPT_AT_LEAST) || written.1 != over {
            *written = (deadline.plus(KEPT_BEYOND), over);
            drop(written);
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
        let (kept_until, _) = *hold(&self.written);
        let value = hold(&record.proclaims).clone().unwrap_or_default();
        let proclaim = Proclaim {
            held: &record.held,
            value: &value,
            term: Granted::of(record.fence),
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
