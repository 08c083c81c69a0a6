//! Where a member of a group waits: a lease is put there, and the member takes it when it is polled.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::base::error::AcquireError;
use crate::base::{debug_as, hold};
use crate::engine::guard::lease::Lease;

type Offer = Result<Lease, AcquireError>;

/// Clones are the same handoff.
#[derive(Clone, Default)]
pub(crate) struct Handoff(Arc<Inside>);

#[derive(Default)]
struct Inside {
    offer: Mutex<Option<Offer>>,
    offered: Notify,
}

impl Handoff {
    pub(crate) fn is(&self, other: &Handoff) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Must not be called while another offer lies there.
    pub(crate) fn offer(&self, offer: Offer) {
        *hold(&self.0.offer) = Some(offer);
        self.0.offered.notify_one();
    }

    /// What lies there and was not taken. To be dropped where no lock is held: a lease that is dropped passes on.
    pub(crate) fn take_back(&self) -> Option<Offer> {
        hold(&self.0.offer).take()
    }

    /// Waits for an offer that is not taken back.
    pub(crate) async fn taken(&self) -> Offer {
        loop {
            if let Some(offer) = self.take_back() {
                return offer;
            }
            self.0.offered.notified().await;
        }
    }
}

debug_as!(Handoff, _it => {});
