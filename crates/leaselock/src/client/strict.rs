//! Strict mode, as a client uses it.

use futures_util::{StreamExt, stream};

use super::handle::Client;
use crate::base::{ErrorKind, StoreError};
use crate::engine::services::OPERATOR_WITHIN;
use crate::engine::values::gate::{Init, Status, StrictStatus};
use crate::script::keys;
use crate::store::Finding;

/// How many gates of a cluster are read at once, of thousands.
///
/// Enough to keep the nodes busy, and few enough that other requests there are not delayed.
const GATES_AT_ONCE: usize = 256;

impl Client {
    /// Warns of a server in strict mode when this client is not: it is granted while the others wait for old leases.
    pub(super) async fn examine_gate(&self) -> Option<Finding> {
        let engine = self.engine();
        // A gate for each slot of a cluster is more than a doctor should ask for.
        if engine.strict.is_some() || engine.store.is_cluster() {
            return None;
        }
        match self.strict_status().await {
            Err(_) | Ok(StrictStatus::Missing) => None,
            Ok(_) => Some(Finding::warn(
                "strict mode",
                "the server is in strict mode, and this client is not",
                "give this client the longest ttl too (strict, --strict): without it a quarantine does not hold it back",
            )),
        }
    }

    /// Runs an operation at each gate, as long as `told` says to continue.
    async fn at_gates<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        ask: impl Fn(String) -> F,
        mut told: impl FnMut(T) -> bool,
    ) -> Result<(), StoreError> {
        let gates = keys::gates(&self.engine().ids.prefix, self.engine().store.is_cluster());
        let mut asked = stream::iter(gates.map(ask)).buffer_unordered(GATES_AT_ONCE);
        while let Some(answer) = asked.next().await {
            if !told(answer?) {
                break;
            }
        }
        Ok(())
    }

    /// Opens the gate of strict mode at once, without a quarantine, and sets the longest ttl.
    ///
    /// For an operator who sets strict mode up, or changes that ttl, and knows that **no client holds a lock** of this
    /// prefix on the server. Without this call the first acquisition begins a quarantine, which is as good but takes
    /// its time. Clients that were built with another longest ttl are refused from here on.
    ///
    /// # Cancel safety
    /// When dropped, it may have happened.
    ///
    /// # Errors
    /// [`StoreError`] of the kind [`Unsupported`](crate::ErrorKind::Unsupported) when this client was built without
    /// [`strict`](crate::ClientBuilder::strict). Otherwise the store did not reply, and the gate may be open.
    pub async fn init_strict(&self) -> Result<(), StoreError> {
        let engine = self.engine();
        let Some(strict) = &engine.strict else {
            let message = "this client is not in strict mode: build it with `strict(longest_ttl)`";
            return Err(StoreError::refused(ErrorKind::Unsupported, message));
        };
        let longest = strict.gate.longest;
        let init = |key: String| async move {
            let init = Init { key: &key, longest };
            engine.store.ask_one(&init, OPERATOR_WITHIN).await
        };
        self.at_gates(init, |_| true).await
    }

    /// Returns the state of strict mode for this prefix, whether or not this client uses it.
    ///
    /// Folders and memory need none, and have none. On a cluster there are many gates; the result is that of the gate
    /// whose quarantine lasts longest.
    ///
    /// # Errors
    /// [`StoreError`] when the store does not reply or is not a server.
    pub async fn strict_status(&self) -> Result<StrictStatus, StoreError> {
        let store = &self.engine().store;
        store.can_be_strict()?;
        let look = |key: String| async move {
            store.ask_one(&Status { key: &key }, OPERATOR_WITHIN).await
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
