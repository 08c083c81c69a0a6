//! Requests to all nodes at once.
//!
//! The caller gets the outcome as soon as it is decided. Requests that are still on their way continue by themselves. A
//! node may carry out a dropped request all the same, and no task would learn of that.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll as Progress;
use std::time::Duration;

use tokio::runtime::Handle;

use super::tally::{Absent, Votes};

/// A node's reply, and which server it is.
pub(super) type Said<R> = (Result<R, Absent>, Option<u64>);
type NodeRequest<R> = Pin<Box<dyn Future<Output = Said<R>> + Send>>;

/// One request to several nodes.
pub(crate) struct FanOut<R: Send + 'static> {
    votes: Votes<R>,
    /// True if the outcome is known.
    over: Arc<AtomicBool>,
    /// The pending requests, by node.
    on_their_way: Vec<(usize, NodeRequest<R>)>,
}

impl<R: Send + 'static> FanOut<R> {
    pub(super) fn new(nodes: usize, within: Duration) -> Self {
        FanOut {
            votes: Votes::new(nodes).due(within),
            over: Arc::default(),
            on_their_way: Vec::with_capacity(nodes),
        }
    }

    /// Cancels requests that have not left yet, because the vote failed.
    pub(crate) fn call_off(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub(super) fn over(&self) -> &Arc<AtomicBool> {
        &self.over
    }

    pub(super) fn send(
        &mut self,
        at: usize,
        request: impl Future<Output = Said<R>> + Send + 'static,
    ) {
        self.on_their_way.push((at, Box::pin(request)));
    }

    pub(crate) fn votes(&self) -> &Votes<R> {
        &self.votes
    }

    /// Waits for the next reply and returns its node; `None` when there is none left.
    ///
    /// # Cancel safety
    /// Safe: the requests continue.
    pub(crate) async fn next(&mut self) -> Option<usize> {
        poll_fn(|cx| {
            if self.on_their_way.is_empty() {
                return Progress::Ready(None);
            }
            for index in 0..self.on_their_way.len() {
                let (at, request) = &mut self.on_their_way[index];
                if let Progress::Ready((said, server)) = request.as_mut().poll(cx) {
                    let at = *at;
                    drop(self.on_their_way.swap_remove(index));
                    self.votes.record(at, said, server);
                    return Progress::Ready(Some(at));
                }
            }
            Progress::Pending
        })
        .await
    }
}

impl<R: Send + 'static> Drop for FanOut<R> {
    fn drop(&mut self) {
        let mut left = std::mem::take(&mut self.on_their_way);
        if left.is_empty() {
            return;
        }
        // Here and not on the client's thread: their connections and timers belong to this runtime.
        if let Ok(runtime) = Handle::try_current() {
            // One task for all of them: a second would wake another thread of the runtime to share the work.
            drop(runtime.spawn(poll_fn(move |cx| {
                left.retain_mut(|(_, request)| request.as_mut().poll(cx).is_pending());
                if left.is_empty() {
                    Progress::Ready(())
                } else {
                    Progress::Pending
                }
            })));
        }
    }
}
