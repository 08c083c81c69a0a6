//! What a client of several servers refuses.

use super::Inner;
#[cfg(feature = "redis")]
use super::options::Options;
use crate::base::error::InvalidInput;
use crate::base::ttl::Ttl;
#[cfg(feature = "redis")]
use crate::store::Store;

impl Inner {
    /// On several servers some options make no sense.
    #[cfg(feature = "redis")]
    pub(crate) fn check_limits(&self, options: &Options) -> Result<(), InvalidInput> {
        match &self.store {
            Store::Quorum(quorum) => quorum.check_limits(options),
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
