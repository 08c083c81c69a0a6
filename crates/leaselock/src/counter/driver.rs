//! The changes that the tasks of one client ask of one counter: who sends them, a caller its own and a task those of others;
//! and for how long one is sent.
//!
//! This is no `Batcher` (`engine/services/batch/`). A batch sends a request once and tells *unknown* when it times out; a
//! change is sent again under its number, by the task that sends for the counter then, and may still be settled after its tasks
//! were told. The store remembers a client's latest number only, so a counter has one request in flight, where batches of
//! many names have two; and changes become one sum with one reply, where the requests of a batch stay apart. What both have
//! in common, the replacement of a sender that makes no progress, is one comparison of times in each.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::calls::{Batch, ChangeEnd, ChangeOnce, ChangeReply, ChangeRequest, PendingChange};
use crate::base::backoff::Backoff;
use crate::base::{Moment, StoreError, hold};
use crate::engine::guard::replicas::Written;
use crate::engine::services::core::Engine;
use crate::engine::shared_state::noun::ValidNoun;
use crate::engine::values::request::Copies;
use crate::quorum::executor::Executor;

/// How long a task sends a change again while no reply comes.
const GIVE_UP_AFTER: Duration = Duration::from_secs(5);
/// How long after the first request the client asks again. The store remembers the reply for twice as long.
const ASKS_AGAIN_FOR: Duration = Duration::from_secs(5 * 60);
/// Pauses between two requests; the last one repeats.
const PAUSES_MS: &[u64] = &[0, 20, 100, 500, 1000];

/// Waits for what becomes of a change, and sends it while no other task does.
pub(super) async fn hear(
    queue: &Arc<ChangeQueue>,
    mut pending: Option<PendingChange>,
    mut hears: oneshot::Receiver<ChangeReply>,
) -> ChangeReply {
    let engine = &queue.noun.engine;
    let background = match engine.own_background() {
        Ok(background) => background,
        Err(error) => return ChangeReply(ChangeEnd::Refused(error), None),
    };
    let reply = loop {
        let is_new = hears.is_empty(); // otherwise others were told meanwhile
        if is_new && let Some(id) = queue.enqueue(pending.take(), &background.handle) {
            // The future of a request is large: tasks that only wait do not pay for its size.
            Box::pin(CounterDriver::new(queue, &engine.store, id).send_one()).await;
        }
        match hears.await {
            Ok(ChangeReply(ChangeEnd::Unknown(_), Some(later))) if !is_new || !later.is_empty() => {
                hears = later
            }
            Ok(told) => break told,
            Err(_) => break ChangeReply(ChangeEnd::Forgotten, None), // no task sends any more
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

/// The queue of one counter of one client: one request is in flight, the other changes wait.
#[derive(Debug)]
pub(super) struct ChangeQueue {
    pub(super) noun: ValidNoun,
    state: Mutex<QueueState>,
}

#[derive(Debug, Default)]
struct QueueState {
    waiting: VecDeque<PendingChange>,
    /// What leaves before all others, under the number that it has: it is in flight, or its reply was lost.
    first: Option<Batch>,
    /// Who sends, and since when: it began, or its latest request left.
    driver: Option<(DriverId, Moment)>,
    drivers: u64,
    is_watched: bool,
}

/// The number of a driver. One that was replaced sends nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DriverId(u64);

impl QueueState {
    fn new_driver(&mut self, now: Moment) -> DriverId {
        self.drivers += 1;
        self.driver.insert((DriverId(self.drivers), now)).0
    }

    fn is_driven_by(&self, driver: DriverId) -> bool {
        self.driver.is_some_and(|(id, _)| id == driver)
    }

    /// True if a task waits for something to be sent.
    fn is_awaited(&self) -> bool {
        !self.waiting.is_empty() || self.first.as_ref().is_some_and(Batch::is_awaited)
    }
}

impl ChangeQueue {
    pub(super) fn new(noun: ValidNoun) -> Self {
        let state = Mutex::default();
        ChangeQueue { noun, state }
    }

    fn now(&self) -> Moment {
        self.noun.engine.clock.now()
    }

    /// Appends a change, or asks for the one that is not settled. The caller sends it if it gets a number; otherwise another
    /// task does, which is watched.
    fn enqueue(self: &Arc<Self>, new: Option<PendingChange>, thread: &Handle) -> Option<DriverId> {
        let mut state = hold(&self.state);
        state.waiting.extend(new);
        if state.driver.is_none() {
            return Some(state.new_driver(self.now()));
        }
        if !std::mem::replace(&mut state.is_watched, true) {
            let watch = watch(Arc::downgrade(self), self.noun.engine.operator_timeout());
            drop(thread.spawn(watch));
        }
        None
    }
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
        let has_more = || {
            let state = hold(&self.queue.state);
            state.is_driven_by(self.id) && state.is_awaited()
        };
        if self.send_next().await && has_more() {
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
        let Some(request) = self.next() else {
            return false;
        };
        let ended = self.send(&request).await;
        self.finish(request.number, &ended);
        true
    }

    /// Returns what is sent next; `None` ends the driver. A request of which no task wants to know is given up.
    fn next(&self) -> Option<ChangeRequest> {
        let (now, mut state) = (self.queue.now(), hold(&self.queue.state));
        if !state.is_driven_by(self.id) {
            return None;
        }
        if !state.first.as_ref().is_some_and(Batch::is_awaited) {
            let numbers = &self.queue.noun.engine.ids.numbers;
            let number = numbers.fetch_add(1, Ordering::SeqCst) + 1;
            state.first = Batch::take(&mut state.waiting, number);
        }
        let request = state.first.as_mut().map(|first| {
            let request = first.request.clone();
            first.request.sent.get_or_insert(now); // for a driver that replaces this one
            request
        });
        state.driver = request.is_some().then_some((self.id, now));
        request
    }

    /// Sends a change, and again under the same number while its reply is lost.
    async fn send(&self, request: &ChangeRequest) -> ChangeEnd {
        let (keys, engine) = (&self.queue.noun.keys, &*self.queue.noun.engine);
        let change = ChangeOnce {
            keys,
            client: engine.ids.client.as_str(),
            request,
        };
        let (mut sent, mut now) = (request.sent, engine.clock.now());
        let give_up_at = now.plus(GIVE_UP_AFTER);
        let mut backoff = Backoff::new(PAUSES_MS);
        loop {
            if sent.is_some_and(|sent| now.saturating_since(sent) > ASKS_AGAIN_FOR) {
                return ChangeEnd::Forgotten;
            }
            let asked = match request.terms.copies {
                Some(copies) => Box::pin(ask_with_copies(engine, &change, copies)).await,
                None => self.store.ask(&change, engine.operator_timeout()).await,
            };
            let error = match asked {
                Ok(ended) => return ended,
                Err(error) => error,
            };
            if error.maybe_applied() {
                sent.get_or_insert(now);
            }
            now = engine.clock.now();
            match &mut hold(&self.queue.state).driver {
                Some((id, since)) if *id == self.id => *since = now, // it makes progress
                _ => {}
            }
            if sent.is_none() {
                return ChangeEnd::Refused(error);
            }
            if !error.is_transient() || now >= give_up_at {
                return ChangeEnd::Unknown(error);
            }
            tokio::time::sleep(backoff.next()).await;
        }
    }

    /// Notes how a request ended. A reply counts from every driver, any other end from the present one only.
    fn finish(&self, number: u64, ended: &ChangeEnd) {
        use ChangeEnd::{Forgotten, Refused, Unknown};
        let mut state = hold(&self.queue.state);
        let is_reply = !matches!(ended, Refused(_) | Unknown(_) | Forgotten);
        let decides = is_reply || state.is_driven_by(self.id);
        let is_it = |first: &mut Batch| decides && first.request.number == number;
        let Some(mut batch) = state.first.take_if(is_it) else {
            return;
        };
        if let Unknown(error) = ended {
            batch.tell_unknown(error);
            // It stays in front: the store remembers the latest change only.
            (state.first, state.driver) = (Some(batch), None);
            let text = format!("an earlier change of this client is not settled: {error}");
            let refused = Refused(StoreError::refused(error.kind(), text));
            let waiting = state.waiting.drain(..);
            return waiting.for_each(|pending| pending.tell(refused.clone()));
        }
        drop(state); // a task that is woken asks for its next change
        let again = batch.tell(ended).into_iter().rev();
        let waiting = &mut hold(&self.queue.state).waiting;
        again.for_each(|pending| waiting.push_front(pending));
    }
}

/// The request in flight may have arrived: the client's thread sends it again, under the number that it has.
impl Drop for CounterDriver {
    fn drop(&mut self) {
        let (now, mut state) = (self.queue.now(), hold(&self.queue.state));
        let ended = state.driver.take_if(|(id, _)| *id == self.id);
        if ended.is_none() || !state.is_awaited() {
            return;
        }
        let id = state.new_driver(now);
        drop(state);
        if let Some(background) = self.queue.noun.engine.started() {
            let driver = CounterDriver::new(&self.queue, &background.store, id);
            drop(background.handle.spawn(driver.run()));
        }
    }
}

/// Sends in place of a driver that makes no progress, because no thread drives its runtime, or its future is not polled.
/// Its requests take so long at most, and those with copies longer by the time of the replicas.
async fn watch(queue: Weak<ChangeQueue>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(queue) = queue.upgrade() else {
            return;
        };
        let overdue = {
            let (now, mut state) = (queue.now(), hold(&queue.state));
            let Some((_, since)) = state.driver else {
                state.is_watched = false;
                return;
            };
            let first = state.first.as_ref();
            let copies = first.and_then(|first| first.request.terms.copies);
            let limit = every + copies.map(|copies| copies.within).unwrap_or_default();
            (now.saturating_since(since) > limit).then(|| state.new_driver(now))
        };
        let Some(background) = queue.noun.engine.started() else {
            return;
        };
        if let Some(id) = overdue {
            let driver = CounterDriver::new(&queue, &background.store, id);
            driver.run().await;
        }
    }
}

/// Changes the counter over a connection of its own, and waits there until replicas have the change.
async fn ask_with_copies(
    engine: &Engine,
    change: &ChangeOnce<'_>,
    asked: Copies,
) -> Result<ChangeEnd, StoreError> {
    let (written, mut ended) =
        Written::new(engine, change, asked, engine.operator_timeout()).await?;
    match &mut ended {
        ChangeEnd::Done(_, lacking) => *lacking = written.shortfall(asked).await,
        _ => written.put_back(),
    }
    Ok(ended)
}
