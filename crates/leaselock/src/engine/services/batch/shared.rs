//! The state that callers, the sending task and the watch over timeouts share.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::batchable::Batchable;
use super::contention_filter::ContentionFilter;
use super::queue::{BatchQueue, Late};
use super::reply::BatchOutcome;
use crate::base::{Clock, ErrorKind, Moment, StoreError, hold};
use crate::quorum::executor::Executor;

pub(super) struct BatchState<B: Batchable> {
    pub(super) queue: Mutex<BatchQueue<B::Reply>>,
    pub(super) store: Executor,
    pub(super) clock: Clock,
    pub(super) contended: Arc<ContentionFilter>,
    /// True if a task watches the timeouts of queued requests.
    pub(super) is_watched: AtomicBool,
    pub(super) wake_watch: Arc<Notify>,
}

impl<B: Batchable> BatchState<B> {
    /// Fails the requests that have timed out, and returns the moment of the next timeout.
    pub(super) fn sweep(&self) -> Option<Moment> {
        let now = self.clock.now();
        let (late, next) = hold(&self.queue).sweep(now);
        for late in late {
            match late {
                Late::InQueue(reply) => {
                    reply.set(BatchOutcome::Answer(Err(self.not_sent_in_time())))
                }
                Late::OnTheWay(sent) => {
                    let over = sent.iter().filter(|asked| now >= asked.until);
                    over.for_each(|asked| {
                        asked
                            .reply
                            .set(BatchOutcome::Answer(Err(self.no_reply_in_time())))
                    });
                }
            }
        }
        next
    }

    pub(super) fn no_reply_in_time(&self) -> StoreError {
        let store = self.store.describe();
        StoreError::unknown(ErrorKind::NoReply, format!("no reply from {store} in time"))
    }

    pub(super) fn not_sent_in_time(&self) -> StoreError {
        let store = self.store.describe();
        StoreError::refused(
            ErrorKind::NoReply,
            format!("no reply from {store} to earlier requests in time"),
        )
    }
}
