//! The reply to one request in a batch: the caller's end and the sender's end.
//!
//! It has no timer. One task watches the timeouts of all requests (see `sweep` in the queue), because a timer of its
//! own would cost a request more than its share of the call.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::base::error::StoreError;
use crate::base::sync::hold;

enum State<R> {
    Waits(Option<Waker>),
    BatchOutcome(BatchOutcome<R>),
    /// The caller has its reply, or was dropped.
    Gone,
}

/// What a request in a batch comes to.
#[derive(Debug)]
pub(crate) enum BatchOutcome<R> {
    Answer(Result<R, StoreError>),
    /// The call was refused as a whole and had no effect: the caller sends the request alone.
    Alone,
    /// The request had no effect, because a batch serves plain cases only. The lock is noted as contended.
    NotPlain,
}

type Cell<R> = Mutex<State<R>>;

/// The sender's end: it sets the reply.
pub(super) struct Reply<R>(Arc<Cell<R>>);

/// The caller's end: a future of the reply. Dropping it says that no caller waits for the reply.
#[must_use = "a request that nobody waits for is not sent"]
pub(crate) struct Pending<R>(Arc<Cell<R>>);

pub(super) fn pair<R>() -> (Reply<R>, Pending<R>) {
    let cell = Arc::new(Mutex::new(State::Waits(None)));
    (Reply(Arc::clone(&cell)), Pending(cell))
}

impl<R> Reply<R> {
    /// Sets the reply. The first one counts; without a waiting caller nothing happens.
    pub(super) fn set(&self, outcome: BatchOutcome<R>) {
        let waker = {
            let mut state = hold(&self.0);
            let State::Waits(waker) = &mut *state else {
                return;
            };
            let waker = waker.take();
            *state = State::BatchOutcome(outcome);
            waker
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn is_awaited(&self) -> bool {
        matches!(*hold(&self.0), State::Waits(_))
    }
}

impl<R> Future for Pending<R> {
    type Output = BatchOutcome<R>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<BatchOutcome<R>> {
        let mut state = hold(&self.0);
        if let State::Waits(waker) = &mut *state {
            match waker {
                Some(waker) => waker.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        match std::mem::replace(&mut *state, State::Gone) {
            State::BatchOutcome(outcome) => Poll::Ready(outcome),
            State::Waits(_) | State::Gone => Poll::Pending, // the caller has had its reply
        }
    }
}

impl<R> Drop for Pending<R> {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut *hold(&self.0), State::Gone);
        drop(before); // outside the lock: this may drop a reply
    }
}
