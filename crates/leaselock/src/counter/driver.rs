//! Who sends the changes of a queue: a caller its own, and a task those of others.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use super::change::{Change, ChangeEnd, ChangeReply, ChangeTerms, PendingChange};
use super::queue::{ChangeQueue, DriverId, Progress, Role};
use super::send::{send, within};
use crate::quorum::executor::Executor;

pub(super) async fn ask(
    queue: &Arc<ChangeQueue>,
    change: Change,
    terms: ChangeTerms,
) -> ChangeReply {
    let (told, hears) = oneshot::channel();
    let is_alone = false;
    let pending = PendingChange {
        change,
        terms,
        is_alone,
        told,
    };
    hear(queue, Some(pending), hears).await
}

/// Waits for what becomes of a change, and sends it while no other task does.
pub(super) async fn hear(
    queue: &Arc<ChangeQueue>,
    pending: Option<PendingChange>,
    hears: oneshot::Receiver<ChangeReply>,
) -> ChangeReply {
    let engine = &queue.noun.engine;
    let background = match engine.background() {
        Ok(background) => background,
        Err(error) => return ChangeReply(ChangeEnd::Refused(error), None),
    };
    match queue.enqueue(pending, || engine.clock.now()) {
        // The future of a request is large: tasks that only wait do not pay for its size.
        Role::Sends(id) => Box::pin(CounterDriver::new(queue, &engine.store, id).send_one()).await,
        Role::Waits => {}
        Role::WaitsAndStartsWatch => {
            let watch = watch(Arc::downgrade(queue), within(engine));
            drop(background.handle.spawn(watch));
        }
    }
    let forgotten = ChangeReply(ChangeEnd::Forgotten, None); // no task sends any more
    let reply = hears.await.unwrap_or(forgotten);
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
        let noun = &self.queue.noun;
        let number = || noun.engine.ids.numbers.fetch_add(1, Ordering::SeqCst) + 1;
        let now = noun.engine.clock.now();
        let Some(request) = self.queue.next(self.id, now, number) else {
            return false;
        };
        let number = request.number;
        let makes_progress = |now| self.queue.note_progress(self.id, now);
        let ended = send(noun, &self.store, request, makes_progress).await;
        self.queue.finish(self.id, number, &ended);
        true
    }
}

/// The request in flight may have arrived: the client's thread sends it again, under the number that it has.
impl Drop for CounterDriver {
    fn drop(&mut self) {
        let engine = &self.queue.noun.engine;
        let next = self.queue.replace(self.id, engine.clock.now());
        if let (Some(id), Some(background)) = (next, engine.started()) {
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
        match (queue.check(engine.clock.now(), every), engine.started()) {
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
