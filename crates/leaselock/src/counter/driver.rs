//! Who sends the changes of a queue, a caller its own and a task those of others; and for how long one is sent.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use super::calls::ChangeOnce;
use super::change::{ChangeEnd, ChangeReply, ChangeRequest, PendingChange, Shortfall};
use super::queue::{ChangeQueue, DriverId, Progress, Role};
use crate::base::StoreError;
use crate::base::backoff::Backoff;
use crate::engine::guard::replicas::Written;
use crate::engine::services::core::{Engine, OPERATOR_WITHIN};
use crate::engine::values::request::Copies;
use crate::quorum::executor::Executor;

/// How long a task waits for a reply that was lost.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long after the first request the client asks again. The store remembers the reply for twice as long.
const ASKS_AGAIN_FOR: Duration = Duration::from_secs(5 * 60);
/// Pauses between two requests; the last one repeats.
const PAUSES_MS: &[u64] = &[0, 20, 100, 500, 1000];

/// How long one request may take, without the time of replicas.
fn within(engine: &Engine) -> Duration {
    let limit = engine.request_timeout.unwrap_or(OPERATOR_WITHIN);
    limit.min(OPERATOR_WITHIN)
}

/// Waits for what becomes of a change, and sends it while no other task does.
pub(super) async fn hear(
    queue: &Arc<ChangeQueue>,
    mut pending: Option<PendingChange>,
    mut hears: oneshot::Receiver<ChangeReply>,
) -> ChangeReply {
    let engine = &queue.noun.engine;
    let background = match engine.background() {
        Ok(background) => background,
        Err(error) => return ChangeReply(ChangeEnd::Refused(error), None),
    };
    let forgotten = ChangeReply(ChangeEnd::Forgotten, None); // no task sends any more
    let reply = loop {
        let is_new = hears.is_empty(); // otherwise others were told meanwhile
        match is_new.then(|| queue.enqueue(pending.take())) {
            Some(Role::Sends(id)) => {
                // The future of a request is large: tasks that only wait do not pay for its size.
                Box::pin(CounterDriver::new(queue, &engine.store, id).send_one()).await;
            }
            Some(Role::WaitsAndStartsWatch) => {
                let watch = watch(Arc::downgrade(queue), within(engine));
                drop(background.handle.spawn(watch));
            }
            Some(Role::Waits) | None => {}
        }
        match hears.await {
            Ok(ChangeReply(ChangeEnd::Unknown(_), Some(later))) if !is_new => hears = later,
            told => break told.unwrap_or(forgotten),
        }
    };
    engine.totals.nouns.changes.add(match &reply.0 {
        ChangeEnd::Done(..) => "counted",
        ChangeEnd::Unknown(_) | ChangeEnd::Forgotten => "unknown",
        ChangeEnd::Differs(_)
        | ChangeEnd::Overflow(_)
        | ChangeEnd::Stale(_)
        | ChangeEnd::OtherName(_)
        | ChangeEnd::Refused(_) => "refused",
    });
    reply
}

/// Sends the changes of a queue, one request after the other.
///
/// A single change leaves in its caller's future. For those that come meanwhile there is a task, because a caller may be
/// dropped, or never be polled again, while others wait.
struct CounterDriver {
    queue: Arc<ChangeQueue>,
    store: Executor,
    id: DriverId,
}

impl CounterDriver {
    fn new(queue: &Arc<ChangeQueue>, store: &Executor, id: DriverId) -> Self {
        let (queue, store) = (Arc::clone(queue), store.clone());
        CounterDriver { queue, store, id }
    }

    /// Sends one request, and leaves the others to a task.
    async fn send_one(self) {
        if self.send_next().await && self.queue.has_more(self.id) {
            drop(tokio::spawn(self.run()));
        }
    }

    async fn run(self) {
        loop {
            // The tasks that the latest reply woke run first, so that their next changes are in this request.
            tokio::task::yield_now().await;
            if !self.send_next().await {
                return;
            }
        }
    }

    async fn send_next(&self) -> bool {
        let Some(request) = self.queue.next(self.id) else {
            return false;
        };
        let ended = self.send(&request).await;
        self.queue.finish(self.id, request.number, &ended);
        true
    }

    /// Sends a change, and again under the same number while its reply is lost.
    async fn send(&self, request: &ChangeRequest) -> ChangeEnd {
        let (keys, engine) = (&self.queue.noun.keys, &*self.queue.noun.engine);
        let client = engine.ids.client.as_str();
        let change = ChangeOnce {
            keys,
            client,
            request,
        };
        let (mut sent, mut now) = (request.sent, engine.clock.now());
        let give_up_at = now.plus(PATIENCE);
        let mut backoff = Backoff::new(PAUSES_MS);
        loop {
            if sent.is_some_and(|sent| now.saturating_since(sent) > ASKS_AGAIN_FOR) {
                return ChangeEnd::Forgotten;
            }
            self.queue.note_progress(self.id, now);
            let asked = match request.terms.copies {
                Some(copies) => Box::pin(ask_with_copies(engine, &change, copies)).await,
                None => self.store.ask(&change, within(engine)).await,
            };
            let error = match asked {
                Ok(ended) => return ended,
                Err(error) => error,
            };
            if error.maybe_applied() {
                sent.get_or_insert(now);
            }
            now = engine.clock.now();
            self.queue.note_progress(self.id, now);
            if sent.is_none() {
                return ChangeEnd::Refused(error);
            }
            if !error.is_transient() || now >= give_up_at {
                return ChangeEnd::Unknown(error);
            }
            tokio::time::sleep(backoff.next()).await;
        }
    }
}

/// The request in flight may have arrived: the client's thread sends it again, under the number that it has.
impl Drop for CounterDriver {
    fn drop(&mut self) {
        let started = self.queue.noun.engine.started();
        if let (Some(id), Some(background)) = (self.queue.replace(self.id), started) {
            let driver = CounterDriver::new(&self.queue, &background.store, id);
            drop(background.handle.spawn(driver.run()));
        }
    }
}

/// Sends in place of a driver that makes no progress, because no thread drives its runtime, or its future is not polled.
async fn watch(queue: Weak<ChangeQueue>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(queue) = queue.upgrade() else {
            return;
        };
        let engine = &queue.noun.engine;
        match (queue.check(every), engine.started()) {
            (Progress::Overdue(id), Some(background)) => {
                CounterDriver::new(&queue, &background.store, id)
                    .run()
                    .await;
            }
            (Progress::Sends, Some(_)) => {}
            _ => return,
        }
    }
}

/// Changes the counter over a connection of its own, and waits there until replicas have the change.
async fn ask_with_copies(
    engine: &Engine,
    change: &ChangeOnce<'_>,
    asked: Copies,
) -> Result<ChangeEnd, StoreError> {
    let (written, ended) = Written::new(engine, change, asked, within(engine)).await?;
    let ChangeEnd::Done(value, _) = ended else {
        written.put_back();
        return Ok(ended);
    };
    let (confirmed, source) = match written.count(asked).await {
        Ok(counted) if counted.are_enough(asked) => return Ok(ended),
        Ok(counted) => (counted.replicas, None),
        Err(error) => (0, Some(error)),
    };
    let lacking = Shortfall {
        asked,
        confirmed,
        source,
    };
    Ok(ChangeEnd::Done(value, Some(Arc::new(lacking))))
}
