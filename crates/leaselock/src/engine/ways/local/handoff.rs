//! Where a member of a group waits: a lease is put there, and the member takes it when it is polled.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::base::error::AcquireError;
use crate::base::{debug_as, hold};
use crate::engine::guard::lease::Lease;

type Offer = Result<Lease, AcquireError>;

/// Clones are the same handoff.
#[derive(Clone, Default)]
pub(crate) struct Handoff(Arc<Mutex<Inside>>);

#[derive(Default)]
struct Inside {
    offer: Option<Offer>,
    waker: Option<Waker>,
}

impl Handoff {
    pub(crate) fn is(&self, other: &Handoff) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Must not be called while another offer lies there.
    pub(crate) fn offer(&self, offer: Offer) {
        let waker = {
            let mut inside = hold(&self.0);
            inside.offer = Some(offer);
            inside.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// What lies there and was not taken. To be dropped where no lock is held: a lease that is dropped passes on.
    pub(crate) fn take_back(&self) -> Option<Offer> {
        hold(&self.0).offer.take()
    }

    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Offer> {
        let mut inside = hold(&self.0);
        if let Some(offer) = inside.offer.take() {
            return Poll::Ready(offer);
        }
        match &mut inside.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

debug_as!(Handoff, _it => {});
