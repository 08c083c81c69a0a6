//! The guard of a leader.

use std::sync::Arc;

use leaselock_fence::Fence;
use tokio::sync::watch;

use super::error::ProclaimError;
use super::proclamation::{Proclamation, WriteOutcome};
use crate::base::error::ReleaseError;
use crate::client::lease_guard::lease_guard;
use crate::engine::guard::lease::Lease;

/// A leadership that is held. Dropping it resigns in the background.
///
/// It has the methods of [`Lease`], to which it dereferences: it is renewed, and [`lost`](Lease::lost) resolves no later
/// than its deadline by this machine's clock, before another client can lead.
///
/// It leads from the grant on. Followers read its value one request later, which the client's own thread sends:
/// [`proclaimed`](Leadership::proclaimed) waits for that.
#[derive(Debug)]
#[must_use = "a leadership that is dropped is given up"]
pub struct Leadership {
    lease: Lease,
    term: Fence,
    value: Arc<str>,
    proclaimed: watch::Receiver<WriteOutcome>,
}

impl Leadership {
    /// Leads, and tells the followers in the background.
    pub(super) fn begin(lease: Lease, value: &Arc<str>) -> Leadership {
        // An election refuses `fencing(false)`, so each lease has a fence.
        let term = lease.fence().unwrap_or(Fence::new(0));
        Leadership {
            proclaimed: Proclamation::start(&lease, value, term),
            lease,
            term,
            value: Arc::clone(value),
        }
    }

    /// The number of this leadership: its fencing token, larger with each leader.
    ///
    /// Pass it to what the leader writes to, so that a resource can refuse a leader that was replaced.
    pub fn term(&self) -> Fence {
        self.term
    }

    /// What the followers read.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Waits until every client can read who leads.
    ///
    /// A leader need not wait for it: what a client reads may be over anyway, and only the leader knows that it leads.
    ///
    /// # Waiting
    /// For the reply to one request, which has left by the time [`campaign`](crate::election::Election::campaign) returns: within
    /// one request timeout.
    ///
    /// # Cancel safety
    /// Safe: the client proclaims in the background, whether anyone waits or not.
    ///
    /// # Errors
    /// [`ProclaimError::Store`]: this client leads, and followers may not see it yet. It proclaims again until the store
    /// has confirmed it; a later call returns the latest outcome. [`ProclaimError::Lost`]: it leads no more.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let election = client.election("scheduler").value("10.0.0.5:8080");
    /// let leading = election.campaign().await?;
    /// leading.proclaimed().await?;
    /// assert!(election.leader().await?.is_some());
    /// # leading.resign().await?;
    /// # Ok(()) }
    /// ```
    pub async fn proclaimed(&self) -> Result<(), ProclaimError> {
        let mut proclaimed = self.proclaimed.clone();
        let outcome = async {
            match proclaimed.wait_for(Option::is_some).await {
                Ok(outcome) => outcome.clone(),
                Err(_) => None, // the lease has ended
            }
        };
        let outcome = tokio::select! {
            outcome = outcome => outcome,
            lost = self.lost() => return Err(lost.into()),
        };
        match outcome {
            Some(Ok(())) => Ok(()),
            Some(Err(source)) if self.is_held() => Err(ProclaimError::Store {
                name: self.name().clone(),
                source,
            }),
            _ => Err(self.lost().await.into()),
        }
    }

    /// Gives the leadership up; the next campaigner in the queue leads in the same step.
    ///
    /// # Waiting
    /// Within two request timeouts. If no reply arrives, the request is sent again; the same request twice does no
    /// harm.
    ///
    /// # Cancel safety
    /// When dropped, the release goes on in the background.
    ///
    /// # Errors
    /// [`ReleaseError`]: this client does not lead after any of them. After `NotHeld`, another client may have led
    /// meanwhile.
    pub async fn resign(self) -> Result<(), ReleaseError> {
        self.lease.release().await
    }
}

lease_guard!(Leadership.lease);
