//! What a client says of one wait of an owner, for as long as the wait lasts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::calls::{Publish, Withdraw};
use super::graph::Wait;
use crate::base::error::StoreError;
use crate::engine::guard::owner::OwnerState;
use crate::engine::services::core::Engine;
use crate::quorum::executor::Executor;
use crate::script::keys;

/// A wait of an owner that holds something. Dropping it withdraws what was published, in the background.
pub(crate) struct Published {
    engine: Arc<Engine>,
    owner: Arc<OwnerState>,
    pub(crate) wait: Wait,
    held: Held,
    within: Duration,
    is_published: AtomicBool,
}

/// The digests of the tokens that the owner holds, by the key at which their waits are published.
type Held = Arc<BTreeMap<String, Vec<String>>>;

impl Published {
    /// Returns `None` for an owner that holds nothing that lasts.
    pub(crate) fn new(
        engine: &Arc<Engine>,
        owner: &Arc<OwnerState>,
        wait: Wait,
        within: Duration,
    ) -> Option<Self> {
        let mut held = BTreeMap::<String, Vec<String>>::new();
        for (client, digest) in owner.held() {
            let key = keys::client_owners(&engine.prefix, &client);
            held.entry(key).or_default().push(digest);
        }
        if held.is_empty() {
            return None;
        }
        owner.waits.fetch_add(1, Ordering::SeqCst);
        Some(Published {
            engine: Arc::clone(engine),
            owner: Arc::clone(owner),
            wait,
            held: Arc::new(held),
            within,
            is_published: AtomicBool::new(false),
        })
    }

    /// True if the owner holds something in another process.
    pub(crate) fn is_inherited(&self) -> bool {
        !self.owner.inherited.is_empty()
    }

    /// Publishes it, or writes it again. False when another task of the owner waits too.
    ///
    /// An owner is one line of execution. When it is not, the grant of one wait may let go of what the other one needs,
    /// so neither is published.
    pub(crate) async fn publish(&self) -> Result<bool, StoreError> {
        if self.owner.waits.load(Ordering::SeqCst) > 1 {
            withdraw(&self.engine.store, &self.held, &self.wait, self.within).await;
            return Ok(false);
        }
        self.is_published.store(true, Ordering::SeqCst);
        let wait = self.wait.encode();
        for (owners, held) in &*self.held {
            let publish = Publish {
                owners,
                wait: &wait,
                held,
            };
            self.engine.store.ask_one(&publish, self.within).await?;
        }
        Ok(true)
    }
}

async fn withdraw(
    store: &Executor,
    all: &BTreeMap<String, Vec<String>>,
    wait: &Wait,
    within: Duration,
) {
    let wait = wait.encode();
    for (owners, held) in all {
        let withdraw = Withdraw {
            owners,
            wait: &wait,
            held,
        };
        drop(store.ask_one(&withdraw, within).await); // without its queue entry it means nothing, and it expires
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        self.owner.waits.fetch_sub(1, Ordering::SeqCst);
        let Some(background) = self.engine.started() else {
            return;
        };
        if self.is_published.load(Ordering::SeqCst) {
            let (store, held) = (background.store.clone(), Arc::clone(&self.held));
            let (wait, within) = (self.wait.clone(), self.within);
            let withdrawal = async move { withdraw(&store, &held, &wait, within).await };
            drop(background.handle.spawn(withdrawal));
        }
    }
}
