//! The way in which a leader holds.

use std::sync::Arc;

use leaselock_fence::Fence;
use tokio::sync::watch;

use super::proclaimer::{Proclaimer, WriteOutcome};
use crate::base::error::LeaseError;
use crate::engine::guard::lease::handle::modes;
use crate::engine::guard::lease::{Lease, LeaseView};

/// The leader of an [`Election`](crate::election::Election).
///
/// It leads from the grant on. Followers read its value one request later: [`proclaimed`](Lease::proclaimed) waits for
/// that. Its lease is [lost](Lease::lost) before another client can lead. To resign is to [`release`](Lease::release) it.
#[derive(Debug, Clone)]
pub struct Leader {
    value: Arc<str>,
    proclaimed: watch::Receiver<WriteOutcome>,
}

modes! {
    Leader: Fence;
}

impl Lease<Leader> {
    /// Leads, and tells the followers in the background.
    pub(super) fn leads(lease: Lease, value: &Arc<str>) -> Self {
        let proclaimed = Proclaimer::start(&lease, value);
        lease.parts().1.note("leader_changed", || value.to_string());
        let value = Arc::clone(value);
        lease.held_as(Leader { value, proclaimed })
    }

    /// Returns the number of this leadership: its fencing token, larger with each leader.
    pub fn term(&self) -> Fence {
        self.fence()
    }

    /// Returns what followers read.
    pub fn value(&self) -> &str {
        &self.known().value
    }

    /// Waits until every client can read who leads.
    ///
    /// A leader need not wait for it: what a client reads may be over anyway, and only the leader knows that it leads.
    ///
    /// # Waiting
    /// For the reply to one request, which has left by the time [`campaign`](crate::election::Election::campaign) returns:
    /// within one request timeout.
    ///
    /// # Cancel safety
    /// Safe: the client proclaims in the background, whether anyone waits or not.
    ///
    /// # Errors
    /// [`LeaseError::Lost`]: it leads no more. Any other: this client leads, and followers may not see it yet. It
    /// proclaims again until the store has confirmed it; a later call returns the latest outcome.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let election = client.election("scheduler").value("10.0.0.5:8080");
    /// let leading = election.campaign().await?;
    /// leading.proclaimed().await?;
    /// assert!(election.leader().await?.is_some());
    /// # leading.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn proclaimed(&self) -> Result<(), LeaseError> {
        let mut proclaimed = self.known().proclaimed.clone();
        let outcome = tokio::select! {
            // An error: the lease has ended.
            outcome = proclaimed.wait_for(Option::is_some) => outcome.ok().and_then(|told| told.clone()),
            lost = self.lost() => return Err(lost.into()),
        };
        match outcome {
            Some(Ok(())) => Ok(()),
            Some(Err(source)) if self.is_held() => Err(LeaseError::from_store(self.name(), source)),
            _ => Err(self.lost().await.into()),
        }
    }
}

impl LeaseView<Leader> {
    /// Returns the number of this leadership: its fencing token, larger with each leader.
    pub fn term(&self) -> Fence {
        self.fence()
    }
}
