//! The reply to one request in a batch: the caller's end and the sender's end.
//!
//! It has no timer. One task watches the timeouts of all requests (see `sweep` in the queue), because a timer of its
//! own would cost a request more than its share of the call.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::base::error::StoreError;
use crate::base::sync::hold;

enum ReplyState<R> {
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

type Cell<R> = Mutex<ReplyState<R>>;

/// The sender's end: it sets the reply.
pub(super) struct BatchReply<R>(Arc<Cell<R>>);

/// The caller's end: a future of the reply. Dropping it says that no caller waits for the reply.
#[must_use = "a request that nobody waits for is not sent"]
pub(crate) struct PendingReply<R>(Arc<Cell<R>>);

pub(super) fn pair<R>() -> (BatchReply<R>, PendingReply<R>) {
    let cell = Arc::new(Mutex::new(ReplyState::Waits(None)));
    (BatchReply(Arc::clone(&cell)), PendingReply(cell))
}

impl<R> BatchReply<R> {
    /// Sets the reply. The first one counts; without a waiting caller nothing happens.
    pub(super) fn set(&self, outcome: BatchOutcome<R>) {
        let waker = {
            let mut state = hold(&self.0);
            let ReplyState::Waits(waker) = &mut *state else {
                return;
            };
            let waker = waker.take();
            *state = ReplyState::BatchOutcome(outcome);
            waker
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn is_awaited(&self) -> bool {
        matches!(*hold(&self.0), ReplyState::Waits(_))
    }
}

impl<R> Future for PendingReply<R> {
    type Output = BatchOutcome<R>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<BatchOutcome<R>> {
        let mut state = hold(&self.0);
        if let ReplyState::Waits(waker) = &mut *state {
            match waker {
                Some(waker) => waker.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        match std::mem::replace(&mut *state, ReplyState::Gone) {
            ReplyState::BatchOutcome(outcome) => Poll::Ready(outcome),
            ReplyState::Waits(_) | ReplyState::Gone => Poll::Pending, // the caller has had its reply
        }
    }
}

impl<R> Drop for PendingReply<R> {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut *hold(&self.0), ReplyState::Gone);
        drop(before); // outside the lock: this may drop a reply
    }
}
