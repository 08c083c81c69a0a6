//! What a client of several servers refuses.

use crate::client::Inner;
use crate::error::InvalidInput;
#[cfg(feature = "redis")]
use crate::options::Options;
#[cfg(feature = "redis")]
use crate::store::Store;
use crate::ttl::Ttl;

impl Inner {
    /// On several servers some options make no sense.
    #[cfg(feature = "redis")]
    pub(crate) fn suits(&self, options: &Options) -> Result<(), InvalidInput> {
        match &self.store {
            Store::Quorum(quorum) => quorum.suits(options),
            _ => Ok(()),
        }
    }

    /// The longest ttl that the store is used with.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) fn takes(&self, ttl: Ttl) -> Result<(), InvalidInput> {
        #[cfg(feature = "redis")]
        if let Store::Quorum(quorum) = &self.store {
            return quorum.takes(ttl.as_duration());
        }
        Ok(())
    }
}
