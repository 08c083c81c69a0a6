//! What a client has to do with strict mode.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::handle::Client;
use crate::base::error::{ErrorKind, StoreError};
use crate::engine::core::{Engine, OPERATOR_WITHIN};
use crate::engine::gate::{Init, Status, StrictStatus};
use crate::script::quarantine_key;

/// On a cluster there are thousands of gates, and at so many of them is asked at once: enough to keep the nodes busy,
/// and few enough that whoever else asks there is not kept waiting.
const GATES_AT_ONCE: usize = 256;

impl Client {
    /// Asks at each gate, as long as what is `told` says to go on.
    async fn at_gates<T: Send + 'static, F>(
        &self,
        ask: impl Fn(Arc<Engine>, String) -> F,
        mut told: impl FnMut(T) -> bool,
    ) -> Result<(), StoreError>
    where
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let mut gates =
            quarantine_key::gates(&self.engine().prefix, self.engine().store.is_cluster());
        let mut asking = JoinSet::new();
        loop {
            let free = GATES_AT_ONCE - asking.len();
            for key in gates.by_ref().take(free) {
                asking.spawn(ask(Arc::clone(self.engine()), key));
            }
            match asking.join_next().await {
                None => return Ok(()),
                Some(Ok(answer)) => {
                    if !told(answer?) {
                        return Ok(());
                    }
                }
                Some(Err(_)) => {
                    let message = "the runtime is shutting down";
                    return Err(StoreError::unknown(ErrorKind::Internal, message));
                }
            }
        }
    }

    /// Opens the gate of strict mode at once, without a quarantine, and says how long the longest lease will be: for an
    /// operator who sets it up, or changes that length, and knows that **nobody holds a lock** of this prefix on the
    /// server. Without it the first acquisition begins a quarantine, which is as good and takes its time. Clients that
    /// were built with another length are refused from here on.
    ///
    /// # Cancel safety
    /// When dropped, it may have happened.
    ///
    /// # Errors
    /// [`StoreError`] of the kind [`Unsupported`](crate::ErrorKind::Unsupported) when this client was built without
    /// [`strict`](crate::ClientBuilder::strict); otherwise the store did not answer, and it may have happened.
    pub async fn init_strict(&self) -> Result<(), StoreError> {
        let Some(strict) = &self.engine().strict else {
            let message = "this client is not in strict mode: build it with `strict(longest_ttl)`";
            return Err(StoreError::refused(ErrorKind::Unsupported, message));
        };
        let longest = strict.gate.longest;
        let init = move |engine: Arc<Engine>, key: String| async move {
            let key = &key;
            engine
                .store
                .ask_one(&Init { key, longest }, OPERATOR_WITHIN)
                .await
        };
        self.at_gates(init, |_| true).await
    }

    /// What strict mode is at for this prefix, whether or not this client is in it. Folders and memory need none, and
    /// have none. On a cluster there are many gates, and the one that keeps locks back for longest speaks for all.
    ///
    /// # Cancel safety
    /// Safe: looking changes nothing.
    ///
    /// # Errors
    /// [`StoreError`] when the store does not answer or is no server.
    pub async fn strict_status(&self) -> Result<StrictStatus, StoreError> {
        self.engine().store.can_be_strict()?;
        let look = |engine: Arc<Engine>, key: String| async move {
            engine
                .store
                .ask_one(&Status { key: &key }, OPERATOR_WITHIN)
                .await
        };
        let mut worst: Option<StrictStatus> = None;
        let told = |status| {
            let worst = worst.insert(worst.map_or(status, |so_far| so_far.worse(status)));
            *worst != StrictStatus::Missing // nothing is worse
        };
        self.at_gates(look, told).await?;
        Ok(worst.unwrap_or(StrictStatus::Missing))
    }
}
