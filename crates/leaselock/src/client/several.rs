//! What a client of several servers refuses.

use super::Inner;
#[cfg(feature = "redis")]
use super::options::Options;
use crate::base::error::InvalidInput;
use crate::base::ttl::Ttl;
#[cfg(feature = "redis")]
use crate::quorum::group::QuorumStore;

impl Inner {
    /// On several servers some options make no sense.
    #[cfg(feature = "redis")]
    pub(crate) fn check_limits(&self, options: &Options) -> Result<(), InvalidInput> {
        let quorum = self.store.majority();
        quorum.map_or(Ok(()), |quorum| check_limits(quorum, options))
    }

    /// The longest ttl that the store is used with.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) fn takes(&self, ttl: Ttl) -> Result<(), InvalidInput> {
        #[cfg(feature = "redis")]
        if let Some(quorum) = self.store.majority() {
            return quorum.takes(ttl.as_duration());
        }
        Ok(())
    }
}

#[cfg(feature = "redis")]
pub(super) fn check_limits(quorum: &QuorumStore, options: &Options) -> Result<(), InvalidInput> {
    if options.priority != 0 {
        return Err(InvalidInput::new(
            "a priority cannot be had on a quorum: there is no line to go ahead in; leave it out, or use one server"
                .to_owned(),
        ));
    }
    quorum.takes(options.length())
}
