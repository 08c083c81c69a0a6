//! The requests that can be batched.

use std::time::Duration;

use crate::base::StoreError;
use crate::engine::values::ballot::many::vote_together;
use crate::engine::values::calls_many::{AcquireMany, ReleaseMany};
use crate::engine::values::{Acquired, Item, ReleaseAnswer, Replies};
use crate::quorum::executor::Executor;

pub(crate) trait Batchable: Send + Sync + 'static {
    type Reply: Send + 'static;

    /// Sends one call for all items, and returns the reply of each. They have the same terms, and are at most
    /// [`MANY_MAX`](crate::engine::values::calls_many::MANY_MAX).
    fn ask(
        store: &Executor,
        items: &[Item],
        within: Duration,
    ) -> impl Future<Output = Result<Replies<Self::Reply>, StoreError>> + Send;
}

#[derive(Debug)]
pub(crate) struct Acquires;

impl Batchable for Acquires {
    type Reply = Acquired;

    /// On a quorum, the nodes vote on the items.
    async fn ask(
        store: &Executor,
        items: &[Item],
        within: Duration,
    ) -> Result<Replies<Acquired>, StoreError> {
        let terms = items[0].terms;
        match store.majority() {
            Some(quorum) => Box::pin(vote_together(quorum, terms, items, within)).await,
            None => store.ask(&AcquireMany { terms, items }, within).await,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Releases;

impl Batchable for Releases {
    type Reply = ReleaseAnswer;

    async fn ask(
        store: &Executor,
        items: &[Item],
        within: Duration,
    ) -> Result<Replies<ReleaseAnswer>, StoreError> {
        let terms = items[0].terms;
        store.ask(&ReleaseMany { terms, items }, within).await
    }
}
