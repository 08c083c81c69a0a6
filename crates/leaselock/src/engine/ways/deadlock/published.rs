//! What a client says of one wait of an owner, for as long as the wait lasts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::calls::{Publish, WithdrawWait};
use super::graph::GraphWait;
use crate::base::StoreError;
use crate::engine::guard::owner::OwnerState;
use crate::engine::services::{Engine, Leftover, Undo};
use crate::quorum::executor::Executor;
use crate::script::keys;

/// How long the store keeps a wait that is not written again.
const KEPT: Duration = Duration::from_secs(60);

/// A wait of an owner that holds something. Dropping it withdraws what was published, in the background.
pub(crate) struct Published {
    owner: Arc<OwnerState>,
    publication: Leftover<Publication>,
}

/// What is published. Without its queue entry it means nothing, and it expires.
#[derive(Debug, Clone)]
struct Publication {
    wait: GraphWait,
    held: HeldDigests,
    within: Duration,
}

/// The digests of the tokens that the owner holds, by the key at which their waits are published.
type HeldDigests = Arc<BTreeMap<String, Vec<String>>>;

impl Published {
    /// Returns `None` for an owner that holds nothing that lasts.
    pub(crate) fn new(
        engine: &Arc<Engine>,
        owner: &Arc<OwnerState>,
        wait: GraphWait,
        within: Duration,
    ) -> Option<Self> {
        let mut held = BTreeMap::<String, Vec<String>>::new();
        for (client, digest) in owner.held() {
            let key = keys::client_owners(&engine.ids.prefix, &client);
            held.entry(key).or_default().push(digest);
        }
        if held.is_empty() {
            return None;
        }
        owner.waits.fetch_add(1, Ordering::SeqCst);
        let publication = Publication {
            wait,
            held: Arc::new(held),
            within,
        };
        Some(Published {
            owner: Arc::clone(owner),
            publication: Leftover::new(engine, publication, KEPT),
        })
    }

    pub(crate) fn wait(&self) -> &GraphWait {
        &self.publication.what().wait
    }

    /// True if the owner holds something in another process.
    pub(crate) fn is_inherited(&self) -> bool {
        !self.owner.inherited.is_empty()
    }

    /// Publishes it, or writes it again. False when another task of the owner waits too.
    ///
    /// An owner is one line of execution. When it is not, the grant of one wait may let go of what the other one needs,
    /// so neither is published.
    pub(crate) async fn publish(&mut self) -> Result<bool, StoreError> {
        let store = self.publication.engine().store.clone();
        if self.owner.waits.load(Ordering::SeqCst) > 1 {
            drop(self.publication.what().undo(&store).await); // it expires
            return Ok(false);
        }
        self.publication.begins();
        let Publication { wait, held, within } = self.publication.what();
        let wait = wait.encode();
        for (owners, held) in &**held {
            let publish = Publish {
                owners,
                wait: &wait,
                held,
            };
            store.ask_one(&publish, *within).await?;
        }
        self.publication.is_present();
        Ok(true)
    }
}

impl Undo for Publication {
    async fn undo(&self, store: &Executor) -> Result<(), StoreError> {
        let wait = self.wait.encode();
        let mut outcome = Ok(());
        for (owners, held) in &*self.held {
            let withdraw = WithdrawWait {
                owners,
                wait: &wait,
                held,
            };
            outcome = store
                .ask_one(&withdraw, self.within)
                .await
                .map(drop)
                .and(outcome);
        }
        outcome
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        self.owner.waits.fetch_sub(1, Ordering::SeqCst);
    }
}
