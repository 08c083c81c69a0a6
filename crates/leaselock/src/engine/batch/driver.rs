//! Sends what gathers, one call after the other, until nothing does.

use std::sync::Arc;

use super::kinds::Kind;
use super::queue::{Sent, Slot};
use super::reply::BatchOutcome;
use super::shared::Shared;
use crate::base::clock::Moment;
use crate::base::error::{ErrorKind, StoreError};
use crate::engine::calls_many::{Answers, Item};

/// A task of its own and not part of a caller's future: a caller may go away, or may never be polled again, while others
/// wait for the same call.
pub(super) struct Driver<K: Kind> {
    shared: Arc<Shared<K>>,
    slot: Slot,
    /// Whose requests are on their way.
    sent: Option<Sent<K::Reply>>,
}

impl<K: Kind> Driver<K> {
    pub(super) fn new(shared: Arc<Shared<K>>, slot: Slot) -> Self {
        let sent = None;
        Driver { shared, slot, sent }
    }

    pub(super) async fn run(mut self) {
        loop {
            // Whoever the latest answers have woken has its turn first, and goes along.
            self.shared.queue().gather(&self.slot);
            tokio::task::yield_now().await;
            let now = self.shared.clock.now();
            let (items, sent) = self.shared.queue().take(&self.slot, now);
            if items.is_empty() {
                return;
            }
            self.sent = Some(Arc::clone(&sent));
            let answer = self.send(&items, &sent, now).await;
            self.sent = None;
            self.tell(answer, &items, &sent);
        }
    }

    /// The call has the time of the one among them that has most; the others stop waiting when theirs is over.
    async fn send(
        &self,
        items: &[Item],
        sent: &Sent<K::Reply>,
        now: Moment,
    ) -> Result<Answers<K::Reply>, StoreError> {
        let until = sent.iter().map(|asked| asked.until).max().unwrap_or(now);
        K::ask(&self.shared.store, items, until.saturating_since(now)).await
    }

    fn tell(
        &self,
        answer: Result<Answers<K::Reply>, StoreError>,
        items: &[Item],
        sent: &Sent<K::Reply>,
    ) {
        match answer {
            Ok(answers) if answers.len() == items.len() => {
                let now = self.shared.clock.now();
                for ((asked, answer), item) in sent.iter().zip(answers).zip(items) {
                    asked.reply.tell(match answer {
                        Some(answer) => BatchOutcome::Answer(Ok(answer)),
                        None => {
                            self.shared.contended.note(&item.keys.lock, now);
                            BatchOutcome::NotPlain
                        }
                    });
                }
            }
            Ok(_) => {
                let message = "the number of answers is not that of the requests";
                let error = StoreError::unknown(ErrorKind::Malformed, message);
                tell_all(sent, || BatchOutcome::Answer(Err(error.clone())));
            }
            // Something that does not pass by itself may be the fault of one of them, or of their being together.
            Err(error) if !error.maybe_applied() && !error.may_pass() => {
                if error.kind() == ErrorKind::Unsupported {
                    self.shared.queue().never_again();
                }
                tell_all(sent, || BatchOutcome::Alone);
            }
            Err(error) => tell_all(sent, || BatchOutcome::Answer(Err(error.clone()))),
        }
    }
}

fn tell_all<R>(sent: &Sent<R>, told: impl Fn() -> BatchOutcome<R>) {
    sent.iter().for_each(|asked| asked.reply.tell(told()));
}

impl<K: Kind> Drop for Driver<K> {
    fn drop(&mut self) {
        self.shared.queue().give_back(&self.slot);
        if let Some(sent) = &self.sent {
            // It ends with its runtime: what it had sent may have arrived.
            let message = "the runtime is shutting down";
            let error = StoreError::unknown(ErrorKind::Internal, message);
            tell_all(sent, || BatchOutcome::Answer(Err(error.clone())));
        }
    }
}
