//! Limits of a quorum that are checked before anything is sent.

use super::core::Engine;
#[cfg(feature = "redis")]
use std::time::Duration;

use crate::base::error::InvalidInput;
use crate::base::ttl::Ttl;
#[cfg(feature = "redis")]
use crate::quorum::group::QuorumStore;

impl Engine {
    /// Refuses options that a quorum does not support.
    #[cfg(feature = "redis")]
    pub(crate) fn check_limits(&self, priority: i32, ttl: Ttl) -> Result<(), InvalidInput> {
        let quorum = self.store.majority();
        quorum.map_or(Ok(()), |quorum| {
            check_limits(quorum, priority, ttl.as_duration())
        })
    }

    /// Refuses a ttl that is longer than the store supports.
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
pub(crate) fn check_limits(
    quorum: &QuorumStore,
    priority: i32,
    ttl: Duration,
) -> Result<(), InvalidInput> {
    if priority != 0 {
        return Err(InvalidInput::new(
            "a priority cannot be had on a quorum: there is no line to go ahead in; leave it out, or use one server"
                .to_owned(),
        ));
    }
    quorum.takes(ttl)
}
