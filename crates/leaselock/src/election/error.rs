//! Why followers may not see a leader yet.

use leaselock_fence::Name;

use crate::base::error::{Lost, StoreError};

/// Why a proclamation was not confirmed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ProclaimError {
    /// The leadership ended before the store had confirmed the proclamation. This client does not lead.
    #[error(transparent)]
    Lost(#[from] Lost),

    /// The store did not reply to the latest request, or refused it.
    ///
    /// **This client still leads**, and followers may not see it. It proclaims itself again in the background.
    #[error("`{name}` is led, and followers may not see who leads: {source}")]
    Store {
        /// The election's name.
        name: Name,
        /// The store's error.
        source: StoreError,
    },
}
