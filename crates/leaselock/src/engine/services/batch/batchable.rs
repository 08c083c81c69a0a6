//! The requests that can be batched.

use std::time::Duration;

use crate::base::StoreError;
use crate::engine::values::ballot::many::vote_together;
use crate::engine::values::calls_many::{AcquireMany, BatchTerms, ReleaseMany};
use crate::engine::values::{Acquired, Item, ReleaseAnswer, Replies};
use crate::quorum::executor::Executor;
use crate::quorum::votable::Votable;

pub(crate) trait Batchable: Send + Sync + 'static {
    type Reply: Send + 'static;
    type Many<'a>: Votable<Reply = Replies<Self::Reply>> + Send + Sync;
    /// Creates the call for items with the same terms, at most
    /// [`MANY_MAX`](crate::engine::values::calls_many::MANY_MAX) of them.
    fn many(terms: BatchTerms, items: &[Item]) -> Self::Many<'_>;

    /// Sends one call for all items, and returns the reply of each.
    fn ask(
        store: &Executor,
        items: &[Item],
        within: Duration,
    ) -> impl Future<Output = Result<Replies<Self::Reply>, StoreError>> + Send {
        async move { store.ask(&Self::many(items[0].terms, items), within).await }
    }
}

#[derive(Debug)]
pub(crate) struct Acquires;

impl Batchable for Acquires {
    type Reply = Acquired;
    type Many<'a> = AcquireMany<'a>;

    fn many(terms: BatchTerms, items: &[Item]) -> AcquireMany<'_> {
        AcquireMany { terms, items }
    }

    /// On a quorum, the nodes vote on the items.
    async fn ask(
        store: &Executor,
        items: &[Item],
        within: Duration,
    ) -> Result<Replies<Acquired>, StoreError> {
        let terms = items[0].terms;
        match store.majority() {
            Some(quorum) => Box::pin(vote_together(quorum, terms, items, within)).await,
            None => store.ask(&Self::many(terms, items), within).await,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Releases;

impl Batchable for Releases {
    type Reply = ReleaseAnswer;
    type Many<'a> = ReleaseMany<'a>;

    fn many(terms: BatchTerms, items: &[Item]) -> ReleaseMany<'_> {
        ReleaseMany { terms, items }
    }
}
