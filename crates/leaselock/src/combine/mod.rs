//! Requests that leave together: what many tasks want at the same moment goes to the store in one call.
//!
//! A lone request goes straight, as if this were not here. While others of its kind are on their way, a request waits
//! in a queue until the tasks that are ready to run have had their turn, and leaves with all that gathered. Each has its
//! own answer, time-out and clean-up: whoever goes away while it is in the queue was surely never sent.

mod contended;
mod queue;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

pub(crate) use self::contended::Contended;
use self::queue::{Entry, Queue, Slot};
use crate::clock::{Clock, Moment};
use crate::error::{ErrorKind, StoreError};
use crate::mutex::many::{Item, Kind};
use crate::script::Operation;
use crate::store::Store;

/// What a request in the queue is told.
#[derive(Debug)]
pub(crate) enum Told<R> {
    Answer(Result<R, StoreError>),
    /// Nothing was done for it, and it is to go by itself: the call was refused.
    Alone,
    /// Nothing was done for it, because it is not the plain case: the lock is noted as contended.
    NotPlain,
}

/// Combines requests of one kind.
pub(crate) struct Combiner<K: Kind>(Arc<Shared<K>>);

/// A request in the queue or on its way.
pub(crate) struct Joined<K: Kind> {
    ticket: u64,
    told: oneshot::Receiver<Told<K::Reply>>,
    within: Duration,
}

struct Shared<K: Kind> {
    queue: Mutex<Queue<K::Reply>>,
    store: Store,
    clock: Clock,
    contended: Arc<Contended>,
}

impl<K: Kind> Combiner<K> {
    pub(crate) fn new(store: Store, clock: Clock, contended: Arc<Contended>) -> Self {
        let can = store.capabilities();
        let names = if can.combines { can.keys_per_call } else { 1 };
        Combiner(Arc::new(Shared {
            queue: Mutex::new(Queue::new(names)),
            store,
            clock,
            contended,
        }))
    }

    /// Sends `alone`, or its item together with others when it is the plain case.
    pub(crate) async fn ask<O>(
        &self,
        alone: &O,
        item: impl FnOnce() -> Item,
        within: Duration,
    ) -> Result<O::Reply, StoreError>
    where
        O: Operation<Reply = K::Reply>,
    {
        let now = self.0.clock.now();
        if let Some(joined) = self.join(item(), now, within) {
            match self.told(joined).await {
                Told::Answer(answer) => return answer,
                Told::Alone | Told::NotPlain => {}
            }
        }
        // What a call of its own needs is large, and a crowd does without.
        Box::pin(self.by_itself(alone, now.plus(within))).await
    }

    async fn by_itself<O>(&self, alone: &O, until: Moment) -> Result<O::Reply, StoreError>
    where
        O: Operation<Reply = K::Reply>,
    {
        let left = until.saturating_since(self.0.clock.now());
        if left.is_zero() {
            return Err(self.too_late()); // a request without time would only break the connection
        }
        let _straight = self.straight();
        self.0.store.ask(alone, left).await
    }

    /// The right to go straight, when nobody is on the way; given back when it is dropped.
    fn straight(&self) -> Option<Straight<'_, K>> {
        let may = self.0.queue().go_straight();
        may.then_some(Straight(&self.0))
    }

    /// Puts a request in the queue, unless it would go straight or others are known to want the lock: then there is
    /// nobody to leave with.
    pub(crate) fn join(&self, item: Item, now: Moment, within: Duration) -> Option<Joined<K>> {
        if self.0.contended.knows(&item.keys.lock, now) {
            return None;
        }
        let queue = self.0.queue();
        let company = !queue.is_straight_free();
        company.then(|| self.enqueue(queue, item, within, now.plus(within)))
    }

    fn enqueue(
        &self,
        mut queue: MutexGuard<'_, Queue<K::Reply>>,
        item: Item,
        within: Duration,
        until: Moment,
    ) -> Joined<K> {
        let (reply, told) = oneshot::channel();
        let (ticket, slot) = queue.enqueue(item, until, until.minus(within), reply);
        drop(queue);
        if let Some(slot) = slot {
            let shared = Arc::clone(&self.0);
            drop(tokio::spawn(Driver { shared, slot }.run()));
        }
        Joined {
            ticket,
            told,
            within,
        }
    }

    /// What a request that joined others is told.
    pub(crate) async fn told(&self, joined: Joined<K>) -> Told<K::Reply> {
        let Joined {
            ticket,
            told,
            within,
        } = joined;
        match timeout(within, told).await {
            Ok(Ok(told)) => told,
            // The driver ended with its runtime: what it had sent may have arrived.
            Ok(Err(_)) => Told::Answer(Err(StoreError::unknown(
                ErrorKind::Internal,
                "the runtime is shutting down",
            ))),
            Err(_) => Told::Answer(Err(self.late(ticket))),
        }
    }

    fn late(&self, ticket: u64) -> StoreError {
        if self.0.queue().withdraw(ticket) {
            return self.too_late();
        }
        let store = self.0.store.describe();
        StoreError::unknown(
            ErrorKind::TimedOut,
            format!("no answer from {store} in time"),
        )
    }

    fn too_late(&self) -> StoreError {
        let store = self.0.store.describe();
        StoreError::refused(
            ErrorKind::TimedOut,
            format!("no answer from {store} to earlier requests in time"),
        )
    }
}

impl<K: Kind> Shared<K> {
    fn queue(&self) -> MutexGuard<'_, Queue<K::Reply>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that went straight.
struct Straight<'a, K: Kind>(&'a Shared<K>);

impl<K: Kind> Drop for Straight<'_, K> {
    fn drop(&mut self) {
        self.0.queue().straight_is_back();
    }
}

/// Sends what gathers, one call after the other, until nothing does. A task of its own and not part of a caller's
/// future: a caller may go away, or may never be polled again, while others wait for the same call.
struct Driver<K: Kind> {
    shared: Arc<Shared<K>>,
    slot: Slot,
}

impl<K: Kind> Driver<K> {
    async fn run(self) {
        loop {
            // Whoever the latest answers have woken has its turn first, and goes along.
            self.shared.queue().gather(&self.slot);
            tokio::task::yield_now().await;
            let now = self.shared.clock.now();
            let batch = self.shared.queue().take(&self.slot, now);
            if batch.is_empty() {
                return;
            }
            self.send(batch, now).await;
        }
    }

    /// The call has the time of the one among them that has most; the others stop waiting when theirs is over.
    async fn send(&self, batch: Vec<Entry<K::Reply>>, now: Moment) {
        let until = batch.iter().map(|entry| entry.until).max().unwrap_or(now);
        let terms = batch[0].item.terms;
        let (items, replies): (Vec<_>, Vec<_>) = batch.into_iter().map(Entry::split).unzip();
        let many = K::many(terms, &items);
        let answer = self
            .shared
            .store
            .ask(&many, until.saturating_since(now))
            .await;
        match answer {
            Ok(answers) if answers.len() == items.len() => {
                let now = self.shared.clock.now();
                for ((reply, answer), item) in replies.into_iter().zip(answers).zip(&items) {
                    let told = match answer {
                        Some(answer) => Told::Answer(Ok(answer)),
                        None => {
                            self.shared.contended.note(&item.keys.lock, now);
                            Told::NotPlain
                        }
                    };
                    drop(reply.send(told)); // an error when nobody waits for it any more
                }
            }
            Ok(_) => {
                let error = StoreError::unknown(
                    ErrorKind::Malformed,
                    "the number of answers is not that of the requests",
                );
                tell_all(replies, || Told::Answer(Err(error.clone())));
            }
            // Something that does not pass by itself may be the fault of one of them, or of their being together.
            Err(error) if !error.maybe_applied() && !error.may_pass() => {
                if error.kind() == ErrorKind::Unsupported {
                    self.shared.queue().never_again();
                }
                tell_all(replies, || Told::Alone);
            }
            Err(error) => tell_all(replies, || Told::Answer(Err(error.clone()))),
        }
    }
}

fn tell_all<R>(replies: Vec<oneshot::Sender<Told<R>>>, told: impl Fn() -> Told<R>) {
    for reply in replies {
        drop(reply.send(told())); // as above
    }
}

impl<K: Kind> Drop for Driver<K> {
    fn drop(&mut self) {
        self.shared.queue().give_back(&self.slot);
    }
}

impl<K: Kind> fmt::Debug for Combiner<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Combiner").finish_non_exhaustive()
    }
}
