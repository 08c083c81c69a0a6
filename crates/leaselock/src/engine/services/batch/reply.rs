//! The reply to one request in a batch: the caller's end and the sender's end.
//!
//! It has no timer. One task watches the timeouts of all requests (see `sweep` in the queue), because a timer of its
//! own would cost a request more than its share of the call.

use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::base::{StoreError, hold};

/// What a request in a batch comes to.
#[derive(Debug)]
pub(crate) enum BatchOutcome<R> {
    Answer(Result<R, StoreError>),
    /// The call was refused as a whole and had no effect: the caller sends the request alone.
    Alone,
    /// The request had no effect, because a batch serves plain cases only. The lock is noted as contended.
    NotPlain,
}

/// The sender's end: it sets the reply.
pub(super) struct BatchReply<R>(Mutex<Option<oneshot::Sender<BatchOutcome<R>>>>);

/// The caller's end: a future of the reply. Dropping it says that no caller waits for the reply.
#[must_use = "a request that nobody waits for is not sent"]
pub(crate) struct PendingReply<R>(oneshot::Receiver<BatchOutcome<R>>);

pub(super) fn pair<R>() -> (BatchReply<R>, PendingReply<R>) {
    let (sender, receiver) = oneshot::channel();
    (BatchReply(Mutex::new(Some(sender))), PendingReply(receiver))
}

impl<R> BatchReply<R> {
    /// Sets the reply. The first one counts; without a waiting caller nothing happens.
    pub(super) fn set(&self, outcome: BatchOutcome<R>) {
        let sender = hold(&self.0).take();
        if let Some(sender) = sender {
            drop(sender.send(outcome));
        }
    }

    pub(super) fn is_awaited(&self) -> bool {
        let sender = hold(&self.0);
        sender.as_ref().is_some_and(|sender| !sender.is_closed())
    }
}

impl<R> Future for PendingReply<R> {
    type Output = BatchOutcome<R>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<BatchOutcome<R>> {
        if self.0.is_terminated() {
            return Poll::Pending; // the caller has had its reply
        }
        match Pin::new(&mut self.0).poll(cx) {
            Poll::Ready(Ok(outcome)) => Poll::Ready(outcome),
            Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending, // the queue and its senders set every reply
        }
    }
}
