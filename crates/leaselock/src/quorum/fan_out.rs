//! Requests to all nodes at once.
//!
//! The caller gets the outcome as soon as it is decided. Requests that are still on their way continue by themselves. A
//! node may carry out a dropped request all the same, and no task would learn of that.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::runtime::Handle;

use super::tally::{Absent, Votes};

/// A node's reply, and which server it is.
pub(super) type Said<R> = (Result<R, Absent>, Option<u64>);
/// A request that is on its way, with its node.
type NodeRequest<R> = Pin<Box<dyn Future<Output = (usize, Said<R>)> + Send>>;

/// One request to several nodes.
pub(crate) struct FanOut<R: Send + 'static> {
    votes: Votes<R>,
    /// True if the outcome is known.
    over: Arc<AtomicBool>,
    on_their_way: FuturesUnordered<NodeRequest<R>>,
}

impl<R: Send + 'static> FanOut<R> {
    pub(super) fn new(nodes: usize, within: Duration) -> Self {
        FanOut {
            votes: Votes::new(nodes).due(within),
            over: Arc::default(),
            on_their_way: FuturesUnordered::new(),
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
        self.on_their_way
            .push(Box::pin(async move { (at, request.await) }));
    }

    pub(crate) fn votes(&self) -> &Votes<R> {
        &self.votes
    }

    /// Waits for the next reply and returns its node; `None` when there is none left.
    ///
    /// # Cancel safety
    /// Safe: the requests continue.
    pub(crate) async fn next(&mut self) -> Option<usize> {
        let (at, (said, server)) = self.on_their_way.next().await?;
        self.votes.record(at, said, server);
        Some(at)
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
            drop(runtime.spawn(async move { while left.next().await.is_some() {} }));
        }
    }
}
