//! Sends a change until it is settled.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::calls::ChangeOnce;
use super::change::{Batch, Settled};
use crate::base::backoff::Backoff;
use crate::base::clock::Clock;
use crate::base::error::StoreError;
use crate::engine::core::{Engine, OPERATOR_WITHIN};
use crate::engine::thread::Background;
use crate::quorum::executor::Executor;
use crate::script::keys::LockKeys;

/// How long a task waits for a reply that was lost.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long after the first request the client asks again. The store remembers the reply for twice as long.
const ASKS_AGAIN_FOR: Duration = Duration::from_secs(5 * 60);
/// Pauses between two requests; the last one repeats.
const PAUSES_MS: &[u64] = &[0, 20, 100, 500, 1000];

/// What a client's thread needs to send changes.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) numbers: Arc<AtomicU64>,
    client: String,
    store: Executor,
    clock: Clock,
    within: Duration,
}

/// How the sending of a batch ended.
#[derive(Debug)]
pub(super) enum Ended {
    Settled(Settled),
    /// It does not count.
    Refused(StoreError),
    /// It counts once or not at all; the client may ask again.
    Unknown(StoreError),
    /// It counts once or not at all, and it is too late to ask.
    Forgotten,
}

impl Sender {
    pub(super) fn new(engine: &Engine, background: &Background) -> Self {
        let within = engine.request_timeout.unwrap_or(OPERATOR_WITHIN);
        Sender {
            numbers: Arc::clone(&engine.numbers),
            client: engine.id.as_str().to_owned(),
            store: background.store.clone(),
            clock: engine.clock.clone(),
            within: within.min(OPERATOR_WITHIN),
        }
    }

    /// Sends a batch, and again under the same number while its reply is lost.
    pub(super) async fn send(&self, keys: &LockKeys, batch: &mut Batch) -> Ended {
        let change = ChangeOnce {
            keys,
            client: &self.client,
            number: batch.number,
            change: batch.change,
            kept_ms: batch.kept_ms,
        };
        let give_up_at = self.clock.now().plus(PATIENCE);
        let mut backoff = Backoff::new(PAUSES_MS);
        loop {
            let now = self.clock.now();
            if batch
                .sent
                .is_some_and(|sent| now.saturating_since(sent) > ASKS_AGAIN_FOR)
            {
                return Ended::Forgotten;
            }
            let error = match self.store.ask(&change, self.within).await {
                Ok(Some(settled)) => return Ended::Settled(settled),
                Ok(None) => return Ended::Forgotten,
                Err(error) => error,
            };
            if error.maybe_applied() {
                batch.sent.get_or_insert(now);
            }
            if batch.sent.is_none() {
                return Ended::Refused(error);
            }
            if !error.may_pass() || self.clock.now() >= give_up_at {
                return Ended::Unknown(error);
            }
            tokio::time::sleep(backoff.next()).await;
        }
    }
}
