//! Who a client is, and the names and numbers that it gives away only once.

use std::sync::atomic::AtomicU64;

use crate::base::token::Stock;
use crate::base::{ClientId, StoreError, Token};
use crate::script::keys;

/// Who a client is, and where it is reached.
pub(crate) struct Ids {
    pub(crate) client: ClientId,
    /// What each of its keys begins with.
    pub(crate) prefix: String,
    /// The channel of the client's own thread.
    pub(crate) channel: String,
    /// The channel of the connection of the requests.
    pub(crate) channel_along: String,
    /// How many owners were made.
    pub(crate) owners: AtomicU64,
    /// The latest number of a change that this client has sent; it never sends another one under the same number.
    pub(crate) numbers: AtomicU64,
    tokens: Stock,
}

impl Ids {
    pub(crate) fn new(client: ClientId, prefix: String) -> Self {
        Ids {
            channel: keys::wake_channel(&prefix, &client),
            channel_along: keys::wake_channel_along(&prefix, &client),
            owners: AtomicU64::new(0),
            numbers: AtomicU64::new(0),
            tokens: Stock::default(),
            client,
            prefix,
        }
    }

    pub(crate) fn token(&self, fencing: bool) -> Result<Token, StoreError> {
        let token = self.tokens.token(&self.client, fencing);
        token.map_err(StoreError::no_random)
    }
}
