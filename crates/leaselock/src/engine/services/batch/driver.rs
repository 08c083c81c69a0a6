//! Sends batches, one call after the other, until the queue is empty.

use std::sync::Arc;

use super::batchable::Batchable;
use super::queue::{BatchSlot, Sent};
use super::reply::BatchOutcome;
use super::shared::BatchState;
use crate::base::{ErrorKind, Moment, StoreError, hold};
use crate::engine::values::{Item, Replies};

/// The task that sends batches.
///
/// It is no part of a caller's future: a caller may be dropped, or never be polled again, while other callers wait for
/// the same call.
pub(super) struct BatchDriver<B: Batchable> {
    shared: Arc<BatchState<B>>,
    slot: BatchSlot,
    sent: Option<Sent<B::Reply>>,
}

impl<B: Batchable> BatchDriver<B> {
    pub(super) fn new(shared: Arc<BatchState<B>>, slot: BatchSlot) -> Self {
        let sent = None;
        BatchDriver { shared, slot, sent }
    }

    pub(super) async fn run(mut self) {
        loop {
            // The tasks that the latest replies woke run first, so that their next requests join this batch.
            hold(&self.shared.queue).start_gathering(&self.slot);
            tokio::task::yield_now().await;
            let now = self.shared.clock.now();
            let (items, sent) = hold(&self.shared.queue).take(&self.slot, now);
            if items.is_empty() {
                return;
            }
            self.sent = Some(Arc::clone(&sent));
            let answer = self.send(&items, &sent, now).await;
            self.sent = None;
            self.deliver(answer, &items, &sent);
        }
    }

    /// Sends one call. Its timeout is the longest of its requests; a request with a shorter timeout stops waiting
    /// earlier.
    async fn send(
        &self,
        items: &[Item],
        sent: &Sent<B::Reply>,
        now: Moment,
    ) -> Result<Replies<B::Reply>, StoreError> {
        let until = sent.iter().map(|asked| asked.until).max().unwrap_or(now);
        B::ask(&self.shared.store, items, until.saturating_since(now)).await
    }

    fn deliver(
        &self,
        answer: Result<Replies<B::Reply>, StoreError>,
        items: &[Item],
        sent: &Sent<B::Reply>,
    ) {
        match answer {
            Ok(answers) if answers.len() == items.len() => {
                let now = self.shared.clock.now();
                for ((asked, answer), item) in sent.iter().zip(answers).zip(items) {
                    asked.reply.set(match answer {
                        Some(answer) => BatchOutcome::Answer(Ok(answer)),
                        None => {
                            self.shared.contended.note(&item.resource.lock, now);
                            BatchOutcome::NotPlain
                        }
                    });
                }
            }
            Ok(_) => {
                let message = "the number of answers is not that of the requests";
                let error = StoreError::unknown(ErrorKind::Malformed, message);
                set_all(sent, || BatchOutcome::Answer(Err(error.clone())));
            }
            // One request of the batch, or the batch as such, may have caused an error that does not pass.
            Err(error) if !error.maybe_applied() && !error.is_transient() => {
                if error.kind() == ErrorKind::Unsupported {
                    hold(&self.shared.queue).disable();
                }
                set_all(sent, || BatchOutcome::Alone);
            }
            Err(error) => set_all(sent, || BatchOutcome::Answer(Err(error.clone()))),
        }
    }
}

fn set_all<R>(sent: &Sent<R>, outcome: impl Fn() -> BatchOutcome<R>) {
    sent.iter().for_each(|asked| asked.reply.set(outcome()));
}

impl<B: Batchable> Drop for BatchDriver<B> {
    fn drop(&mut self) {
        hold(&self.shared.queue).free_slot(&self.slot);
        if let Some(sent) = &self.sent {
            // The task ends with its runtime: the requests in flight may have arrived.
            let message = "the runtime is shutting down";
            let error = StoreError::unknown(ErrorKind::Internal, message);
            set_all(sent, || BatchOutcome::Answer(Err(error.clone())));
        }
    }
}
