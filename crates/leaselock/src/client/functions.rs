//! Putting the scripts onto a server as functions.

use super::{Client, OPERATOR_WITHIN};
#[cfg(feature = "embedded")]
use crate::base::error::ErrorKind;
use crate::base::error::StoreError;
use crate::engine::identity::{Announce, Who};
use crate::functions;
use crate::script::{Operation, Scripts};
use crate::store::Store;
use crate::store::redis::LoadedFunctions;

/// What a client says about itself.
pub(crate) const SCRIPTS: Scripts = &[Announce::SCRIPT, Who::SCRIPT];

impl Client {
    /// Loads all scripts as functions onto the server, or onto every primary of a cluster, for clients that were built
    /// with [`functions`](crate::ClientBuilder::functions). Replicas have them from their primary. Each version of
    /// leaselock has a library of its own: others stay, and nothing is done when this one is there. The user needs the
    /// right to `FUNCTION LOAD`.
    ///
    /// # Cancel safety
    /// When dropped, it may have happened; doing it again does no harm.
    ///
    /// # Errors
    /// [`StoreError`] of the kind `Unsupported` when the store has no functions (Redis before 7, a folder), `Forbidden`
    /// when the user may not load them. Of several servers it names each that failed; the others have them.
    pub async fn load_functions(&self) -> Result<LoadedFunctions, StoreError> {
        match &self.inner.store {
            Store::Redis(store) => store.load_functions(OPERATOR_WITHIN).await,
            Store::Quorum(store) => store.load_functions(OPERATOR_WITHIN).await,
            #[cfg(feature = "embedded")]
            Store::Embedded(_) => Err(StoreError::refused(
                ErrorKind::Unsupported,
                "functions are for servers, and this is a folder or memory",
            )),
        }
    }

    /// What [`load_functions`](Client::load_functions) loads, for whoever loads it by other means:
    /// `FUNCTION LOAD` takes it as it is.
    pub fn functions_source() -> &'static str {
        &functions::library().source
    }
}
