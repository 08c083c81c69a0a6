//! The guard of a leader.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::calls::{Proclaim, Proclaimed};
use crate::base::error::{AcquireError, ReleaseError, StoreError};
use crate::base::fence::Fence;
use crate::base::name::Name;
use crate::engine::broadcast;
use crate::engine::core::OPERATOR_WITHIN;
use crate::engine::lease::Lease;

/// What the followers' channel is called.
pub(super) const NOUN: &str = "election";
/// The store keeps the record for seven days, so that a leader that leads for longer must write it again.
const WRITTEN_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// A leadership that is held. Dropping it resigns in the background.
///
/// It has the methods of [`Lease`], to which it dereferences: it is renewed, and [`lost`](Lease::lost) resolves no later
/// than its deadline by this machine's clock, before another client can lead.
#[derive(Debug)]
#[must_use = "a leadership that is dropped is given up"]
pub struct Leadership {
    lease: Lease,
    term: Fence,
    value: Arc<str>,
}

impl Leadership {
    /// Tells the followers. `None` if the lease was lost before that: this client does not lead.
    pub(super) async fn proclaim(
        lease: Lease,
        value: &Arc<str>,
    ) -> Result<Option<Leadership>, AcquireError> {
        let Some(term) = lease.fence() else {
            return Ok(None); // refused before, so this does not happen
        };
        let leadership = Leadership {
            lease,
            term,
            value: Arc::clone(value),
        };
        match leadership.tell().await {
            Ok(Proclaimed::Shown) => {
                leadership.keep_record();
                Ok(Some(leadership))
            }
            Ok(Proclaimed::NotHeld) => Ok(None),
            Err(source) => Err(leadership.give_up(source).await),
        }
    }

    /// The same request twice does no harm, so a lost reply costs no leadership.
    async fn tell(&self) -> Result<Proclaimed, StoreError> {
        let (engine, record, _) = self.lease.parts();
        let channel = broadcast::channel_of(engine, NOUN, &record.resource.lock);
        let proclaim = Proclaim {
            resource: &record.resource,
            token: &record.token,
            value: &self.value,
            term: self.term,
            channel: &channel,
        };
        let within = engine.request_timeout(record.ttl());
        match engine.ask(&proclaim, within).await {
            Err(error) if error.maybe_applied() && self.lease.is_held() => {
                engine.ask(&proclaim, within).await
            }
            outcome => outcome,
        }
    }

    /// Releases what no follower may have learned of.
    async fn give_up(self, source: StoreError) -> AcquireError {
        let (name, clear_in): (Name, Duration) = (self.name().clone(), self.remaining());
        match self.lease.release().await {
            Ok(()) | Err(ReleaseError::NotHeld { .. }) => AcquireError::Store { name, source },
            Err(_) => AcquireError::Unknown {
                name,
                clear_in,
                source,
            },
        }
    }

    /// Writes the record again from time to time, as long as the lease is held.
    fn keep_record(&self) {
        let (engine, record, _) = self.lease.parts();
        let Some(background) = engine.started() else {
            return;
        };
        let (weak, clock, lost) = (
            Arc::downgrade(engine),
            engine.clock.clone(),
            self.lease.lost(),
        );
        let (record, store) = (Arc::clone(record), background.store.clone());
        let (value, term) = (Arc::clone(&self.value), self.term);
        let write_again = async move {
            loop {
                clock.sleep(WRITTEN_EVERY).await;
                let Some(engine) = weak.upgrade() else {
                    return;
                };
                let channel = broadcast::channel_of(&engine, NOUN, &record.resource.lock);
                drop(engine);
                let proclaim = Proclaim {
                    resource: &record.resource,
                    token: &record.token,
                    value: &value,
                    term,
                    channel: &channel,
                };
                drop(store.ask(&proclaim, OPERATOR_WITHIN).await); // tomorrow again
            }
        };
        drop(background.handle.spawn(async move {
            tokio::select! {
                _ = lost => {}
                () = write_again => {}
            }
        }));
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

impl Deref for Leadership {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

/// The lease alone, for code that handles leases of every kind.
impl From<Leadership> for Lease {
    fn from(held: Leadership) -> Lease {
        held.lease
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use super::*;
    use crate::client::Client;
    use crate::client::inspection::BreakOptions;

    /// The request of a process that was frozen arrives when another client leads.
    #[tokio::test]
    async fn a_proclamation_that_comes_late_changes_nothing() {
        let client = Client::connect("mem:").unwrap();
        let election = |value: &str| client.election("job").value(value);
        let frozen = election("frozen").campaign().await.unwrap();
        let broken = client.break_lease("job", BreakOptions::default()).await;
        broken.unwrap();
        assert_eq!(frozen.tell().await.unwrap(), Proclaimed::NotHeld);
        let leading = election("leader").campaign().await.unwrap();
        assert_eq!(frozen.tell().await.unwrap(), Proclaimed::NotHeld);
        let seen = election("").leader().await.unwrap().unwrap();
        assert_eq!((&*seen.value, seen.term), ("leader", leading.term()));
        leading.resign().await.unwrap();
    }
}
