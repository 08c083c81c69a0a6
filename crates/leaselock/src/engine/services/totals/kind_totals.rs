//! What is counted for one kind of lock and one class.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::counts::Counts;
use super::histogram::{Histogram, SHARES, TIMES};
use crate::base::error::{AcquireError, LostReason, ReleaseError};

const OUTCOMES: [&str; 11] = [
    GRANTED,
    "busy",
    "deadlock",
    "quarantined",
    "too_few_replicas",
    "no_quorum",
    "lost",
    "unknown",
    "store",
    "invalid",
    CANCELLED,
];
pub(super) const GRANTED: &str = "granted";
pub(super) const CANCELLED: &str = "cancelled";
const LOSSES: [&str; 6] = [
    "expired",
    "taken_over",
    "broken",
    "key_missing",
    "store_unreachable",
    "max_hold_reached",
];
const RELEASES: [&str; 4] = ["ok", "not_held", "unknown", "store"];
const RENEWALS: [&str; 2] = ["ok", "failed"];

pub(crate) struct KindTotals {
    pub(crate) kind: &'static str,
    pub(crate) class: Arc<str>,
    pub(crate) acquires: Counts<11>,
    pub(crate) losses: Counts<6>,
    pub(crate) releases: Counts<4>,
    pub(crate) renewals: Counts<2>,
    pub(crate) waits: Histogram<17>,
    pub(crate) holds: Histogram<17>,
    /// The share of its time that a lease had left when a renewal was confirmed.
    pub(crate) headroom: Histogram<9>,
    /// Leases that were held, without those whose records went before they ended.
    pub(super) held: AtomicU64,
    pub(super) begun: AtomicU64,
}

impl KindTotals {
    pub(super) fn new(kind: &'static str, class: &Arc<str>) -> Self {
        KindTotals {
            kind,
            class: Arc::clone(class),
            acquires: Counts::of(&OUTCOMES),
            losses: Counts::of(&LOSSES),
            releases: Counts::of(&RELEASES),
            renewals: Counts::of(&RENEWALS),
            waits: Histogram::of(&TIMES),
            holds: Histogram::of(&TIMES),
            headroom: Histogram::of(&SHARES),
            begun: AtomicU64::new(0),
            held: AtomicU64::new(0),
        }
    }

    /// How many leases are held and how many acquisitions wait: what began and is not counted as ended. So a pair touches
    /// fewer counters, which the cores of the machine share.
    pub(crate) fn held_and_waiting(&self) -> (u64, u64) {
        let [held, begun] = [&self.held, &self.begun].map(|count| count.load(Ordering::Relaxed));
        let (holds, ended) = (self.holds.snapshot().1, self.acquires.snapshot());
        (
            held.saturating_sub(holds),
            begun.saturating_sub(ended.values().sum()),
        )
    }

    pub(crate) fn add_release(&self, released: &Result<(), ReleaseError>) {
        let outcome = released.as_ref().map_or_else(release_outcome, |()| "ok");
        self.releases.add(outcome);
    }

    /// `headroom`: what was left before a renewal that the store confirmed, in millionths; `None` where that says nothing.
    pub(crate) fn add_renewal(&self, is_confirmed: bool, headroom: Option<u64>) {
        self.renewals
            .add(if is_confirmed { "ok" } else { "failed" });
        if let Some(share) = headroom.filter(|_| is_confirmed) {
            self.headroom.add(share);
        }
    }
}

/// The only place that says what an error of an acquisition counts as.
pub(super) fn outcome(error: &AcquireError) -> &'static str {
    match error {
        AcquireError::TimedOut { .. } => "busy",
        AcquireError::Deadlock { .. } => "deadlock",
        AcquireError::Quarantined { .. } => "quarantined",
        AcquireError::TooFewReplicas { .. } => "too_few_replicas",
        AcquireError::NoQuorum { .. } => "no_quorum",
        AcquireError::Lost(_)
        | AcquireError::LostBefore(_)
        | AcquireError::LostWhileWaiting { .. } => "lost",
        AcquireError::Unknown { .. } => "unknown",
        AcquireError::Store { .. } => "store",
        AcquireError::Invalid(_) | AcquireError::TooMany { .. } | AcquireError::Closed => "invalid",
    }
}

/// `None` for a lease that its holder gave up.
pub(super) fn loss(reason: LostReason) -> Option<&'static str> {
    match reason {
        LostReason::Expired => Some("expired"),
        LostReason::TakenOver => Some("taken_over"),
        LostReason::Broken => Some("broken"),
        LostReason::KeyMissing => Some("key_missing"),
        LostReason::StoreUnreachable => Some("store_unreachable"),
        LostReason::MaxHoldReached => Some("max_hold_reached"),
        LostReason::Released => None,
    }
}

/// Of several names, the first error counts.
fn release_outcome(error: &ReleaseError) -> &'static str {
    match error {
        ReleaseError::NotHeld(_) => "not_held",
        ReleaseError::Unknown { .. } => "unknown",
        ReleaseError::Store { .. } | ReleaseError::Invalid(_) => "store",
        ReleaseError::Several(errors) => errors.first().map_or("unknown", release_outcome),
    }
}
