//! What several servers do not support, checked before anything is sent.

use std::time::Duration;

use super::group::QuorumStore;
use crate::base::error::InvalidInput;

impl QuorumStore {
    /// Refuses a priority, and a lease that would outlive the time for which a restarted node stays out.
    pub(crate) fn check_limits(&self, priority: i32, ttl: Duration) -> Result<(), InvalidInput> {
        if priority != 0 {
            return Err(InvalidInput::new(
                "a quorum does not support a priority: it has no queue to go ahead in; leave it out, or use one server",
            ));
        }
        let longest = self.longest();
        if ttl <= longest {
            return Ok(());
        }
        Err(InvalidInput::new(format!(
            "ttl {ttl:?} is longer than the longest on this quorum, {longest:?}: make it shorter, or raise `longest_ttl` \
             for all who share the servers, who must agree on it"
        )))
    }
}
