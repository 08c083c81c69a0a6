//! What one request is told: the end of whoever asks, and the end of whoever answers.
//!
//! There is no timer in it. Whoever answers watches the time for all (see `sweep` in the queue), because a timer of its
//! own costs a request more than its share of the call.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::base::error::StoreError;

enum State<R> {
    Waits(Option<Waker>),
    BatchOutcome(BatchOutcome<R>),
    /// It was told, or does not wait any more.
    Gone,
}

/// What a request in the queue is told.
#[derive(Debug)]
pub(crate) enum BatchOutcome<R> {
    Answer(Result<R, StoreError>),
    /// Nothing was done for it, and it is to go by itself: the call was refused.
    Alone,
    /// Nothing was done for it, because it is not the plain case: the lock is noted as contended.
    NotPlain,
}

struct Cell<R>(Mutex<State<R>>);

impl<R> Cell<R> {
    fn state(&self) -> MutexGuard<'_, State<R>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the answer goes.
pub(super) struct Reply<R>(Arc<Cell<R>>);

/// A request in the queue or on its way. Dropping it says that nobody waits for the answer.
#[must_use = "a request that nobody waits for is not sent"]
pub(crate) struct Pending<R>(Arc<Cell<R>>);

pub(super) fn pair<R>() -> (Reply<R>, Pending<R>) {
    let cell = Arc::new(Cell(Mutex::new(State::Waits(None))));
    (Reply(Arc::clone(&cell)), Pending(cell))
}

impl<R> Reply<R> {
    /// The first answer counts; nothing happens when nobody waits for one.
    pub(super) fn tell(&self, told: BatchOutcome<R>) {
        let waker = {
            let mut state = self.0.state();
            let State::Waits(waker) = &mut *state else {
                return;
            };
            let waker = waker.take();
            *state = State::BatchOutcome(told);
            waker
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn is_awaited(&self) -> bool {
        matches!(*self.0.state(), State::Waits(_))
    }
}

impl<R> Future for Pending<R> {
    type Output = BatchOutcome<R>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<BatchOutcome<R>> {
        let mut state = self.0.state();
        if let State::Waits(waker) = &mut *state {
            match waker {
                Some(waker) => waker.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        match std::mem::replace(&mut *state, State::Gone) {
            State::BatchOutcome(told) => Poll::Ready(told),
            State::Waits(_) | State::Gone => Poll::Pending, // it was told already
        }
    }
}

impl<R> Drop for Pending<R> {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut *self.0.state(), State::Gone);
        drop(before); // where no lock is held: an answer may be dropped with it
    }
}
