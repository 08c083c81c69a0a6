//! The changes that the tasks of one client ask of one counter.
//!
//! This is no `Batcher` (`engine/services/batch/`). A batch sends a request once and tells *unknown* when it times out; a
//! change is sent again under its number, by the task that sends for the counter then, and may still be settled after its tasks
//! were told. The store remembers a client's latest number only, so a counter has one request in flight, where batches of
//! many names have two; and changes become one sum with one reply, where the requests of a batch stay apart. What both have
//! in common, the replacement of a sender that makes no progress, is one comparison of times in each.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::change::{Batch, ChangeEnd, ChangeRequest, PendingChange};
use crate::base::{Moment, StoreError, hold};
use crate::engine::shared_state::noun::ValidNoun;

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
pub(super) struct DriverId(u64);

/// Who sends a change.
pub(super) enum Role {
    /// The caller does.
    Sends(DriverId),
    /// Another task does.
    Waits,
    /// Another task does, and the caller starts a watch over it.
    WaitsAndStartsWatch,
}

/// What a watch finds.
pub(super) enum Progress {
    Idle,
    Sends,
    /// No request has ended in time: this driver replaces the one before.
    Overdue(DriverId),
}

impl QueueState {
    fn new_driver(&mut self, now: Moment) -> DriverId {
        self.drivers += 1;
        let id = DriverId(self.drivers);
        self.driver = Some((id, now));
        id
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

    /// Appends a change, or asks for the one that is not settled.
    pub(super) fn enqueue(&self, pending: Option<PendingChange>) -> Role {
        let mut state = hold(&self.state);
        state.waiting.extend(pending);
        if state.driver.is_none() {
            return Role::Sends(state.new_driver(self.now()));
        }
        match std::mem::replace(&mut state.is_watched, true) {
            true => Role::Waits,
            false => Role::WaitsAndStartsWatch,
        }
    }

    /// Returns what the driver sends next; `None` ends it. A request of which no task wants to know is given up.
    pub(super) fn next(&self, driver: DriverId) -> Option<ChangeRequest> {
        let (now, mut state) = (self.now(), hold(&self.state));
        if !state.is_driven_by(driver) {
            return None;
        }
        if !state.first.as_ref().is_some_and(Batch::is_awaited) {
            let number = self.noun.engine.ids.numbers.fetch_add(1, Ordering::SeqCst) + 1;
            state.first = Batch::take(&mut state.waiting, number);
        }
        let request = state.first.as_mut().map(|first| {
            let request = first.request.clone();
            first.request.sent.get_or_insert(now); // for a driver that replaces this one
            request
        });
        state.driver = request.is_some().then_some((driver, now));
        request
    }

    /// Notes how a request ended. A reply counts from every driver, any other end from the present one only.
    pub(super) fn finish(&self, driver: DriverId, number: u64, ended: &ChangeEnd) {
        let mut state = hold(&self.state);
        let decides = ended.is_settled() || state.is_driven_by(driver);
        let is_it = |first: &mut Batch| decides && first.request.number == number;
        let Some(mut batch) = state.first.take_if(is_it) else {
            return;
        };
        if let ChangeEnd::Unknown(error) = ended {
            batch.tell_unknown(error);
            // It stays in front: the store remembers the latest change only.
            (state.first, state.driver) = (Some(batch), None);
            let text = format!("an earlier change of this client is not settled: {error}");
            let refused = ChangeEnd::Refused(StoreError::refused(error.kind(), text));
            let waiting = state.waiting.drain(..);
            return waiting.for_each(|pending| pending.tell(refused.clone()));
        }
        drop(state); // a task that is woken asks for its next change
        let mut again = VecDeque::from(batch.tell(ended));
        if !again.is_empty() {
            let waiting = &mut hold(&self.state).waiting;
            again.append(waiting);
            *waiting = again;
        }
    }

    /// True if this driver has more to send.
    pub(super) fn has_more(&self, driver: DriverId) -> bool {
        let state = hold(&self.state);
        state.is_driven_by(driver) && state.is_awaited()
    }

    /// Ends a driver that was dropped, and returns the next one if there is more to send.
    pub(super) fn replace(&self, driver: DriverId) -> Option<DriverId> {
        let (now, mut state) = (self.now(), hold(&self.state));
        state.driver.take_if(|(id, _)| *id == driver)?;
        state.is_awaited().then(|| state.new_driver(now))
    }

    /// Notes that the driver sends a request at this moment, which may be the same one again.
    pub(super) fn note_progress(&self, driver: DriverId, now: Moment) {
        let mut state = hold(&self.state);
        if let Some((_, since)) = state.driver.as_mut().filter(|(id, _)| *id == driver) {
            *since = now;
        }
    }

    /// Checks the driver, whose requests take this long at most.
    pub(super) fn check(&self, within: Duration) -> Progress {
        let (now, mut state) = (self.now(), hold(&self.state));
        let Some((_, since)) = state.driver else {
            state.is_watched = false;
            return Progress::Idle;
        };
        let first = state.first.as_ref();
        let copies = first.and_then(|first| first.request.terms.copies);
        let limit = within + copies.map(|copies| copies.within).unwrap_or_default();
        match now.saturating_since(since) > limit {
            true => Progress::Overdue(state.new_driver(now)),
            false => Progress::Sends,
        }
    }
}
