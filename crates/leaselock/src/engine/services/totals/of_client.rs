//! The counts of one client, by kind of lock and class, and what an acquisition and a lease add to them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tracing::Span;

use super::nouns::NounTotals;
use crate::base::counters::{Chain, Counts, Histogram, SHARES, TIMES};
use crate::base::error::{AcquireError, LostReason, ReleaseError};
use crate::base::{Clock, Moment, hold};
use crate::engine::values::{OnWait, Waiting};

/// How many classes are told apart. Each has a series for every bucket, and a class that is made of a name would have one
/// for each name.
const CLASSES_MAX: usize = 64;
/// The class of all further ones.
const OTHER: &str = "other";
/// A longer class is cut off.
const CLASS_CHARS_MAX: usize = 100;

/// A client has far fewer kinds of locks; the bound only ends the search.
const KINDS_MAX: usize = 100;

pub(crate) struct Totals {
    /// What has no class.
    plain: ClassTotals,
    other: ClassTotals,
    classes: Chain<ClassTotals>,
    has_warned: AtomicBool,
    pub(crate) nouns: NounTotals,
}

struct ClassTotals {
    class: Arc<str>,
    kinds: Chain<Arc<KindTotals>>,
}

impl ClassTotals {
    fn new(class: &str) -> Self {
        ClassTotals {
            class: Arc::from(class),
            kinds: Chain::default(),
        }
    }

    fn of(&self, kind: &'static str) -> Option<&Arc<KindTotals>> {
        let make = || Arc::new(KindTotals::new(kind, &self.class));
        self.kinds.find(KINDS_MAX, |one| one.kind == kind, make)
    }
}

impl Default for Totals {
    fn default() -> Self {
        Totals {
            plain: ClassTotals::new(""),
            other: ClassTotals::new(OTHER),
            classes: Chain::default(),
            has_warned: AtomicBool::new(false),
            nouns: NounTotals::default(),
        }
    }
}

impl Totals {
    /// Returns what is counted for this kind and class. `None` is for a client with more kinds than there are.
    pub(crate) fn of(&self, kind: &'static str, class: &str) -> Option<&Arc<KindTotals>> {
        self.class(class).of(kind)
    }

    fn class(&self, class: &str) -> &ClassTotals {
        if class.is_empty() {
            return &self.plain;
        }
        let end = class.char_indices().nth(CLASS_CHARS_MAX);
        let class = end.map_or(class, |(end, _)| &class[..end]);
        if class == OTHER {
            return &self.other;
        }
        let is = |one: &ClassTotals| *one.class == *class;
        let found = self
            .classes
            .find(CLASSES_MAX, is, || ClassTotals::new(class));
        found.unwrap_or_else(|| self.beyond())
    }

    fn beyond(&self) -> &ClassTotals {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(target: "leaselock", "too many classes; further ones count as `other`");
        }
        &self.other
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<KindTotals>> {
        let classes = [&self.plain, &self.other].into_iter();
        let classes = classes.chain(self.classes.iter());
        classes.flat_map(|class| class.kinds.iter())
    }
}

#[rustfmt::skip]
const OUTCOMES: [&str; 11] = [
    GRANTED, "busy", "deadlock", "quarantined", "too_few_replicas", "no_quorum", "lost", "unknown",
    "store", "invalid", CANCELLED,
];
pub(super) const GRANTED: &str = "granted";
pub(super) const CANCELLED: &str = "cancelled";
#[rustfmt::skip]
const LOSSES: [&str; 6] = [
    "expired", "taken_over", "broken", "key_missing", "store_unreachable", "max_hold_reached",
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
    /// Those that the leases hold which are held.
    pub(crate) permits: AtomicU64,
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
            permits: AtomicU64::new(0),
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

    /// Those of a lease, and at its end the negative of that.
    fn add_permits(&self, permits: u64) {
        if permits > 0 {
            self.permits.fetch_add(permits, Ordering::Relaxed); // wraps
        }
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
pub(crate) fn release_outcome(error: &ReleaseError) -> &'static str {
    match error {
        ReleaseError::NotHeld(_) => "not_held",
        ReleaseError::Unknown { .. } => "unknown",
        ReleaseError::Store { .. } | ReleaseError::Invalid(_) => "store",
        ReleaseError::Several(errors) => errors.first().map_or("unknown", release_outcome),
    }
}

/// Counts how an acquisition ends; one that is dropped was cancelled.
#[must_use = "dropping it counts a cancelled acquisition"]
pub(crate) struct Acquiring<'a> {
    clock: &'a Clock,
    pub(crate) began: Moment,
    totals: Option<&'a Arc<KindTotals>>,
    pub(crate) span: Span,
}

impl<'a> Acquiring<'a> {
    pub(crate) fn begin(clock: &'a Clock, totals: Option<&'a Arc<KindTotals>>, span: Span) -> Self {
        if let Some(totals) = totals {
            totals.begun.fetch_add(1, Ordering::Relaxed);
        }
        Acquiring {
            clock,
            began: clock.now(),
            totals,
            span,
        }
    }

    /// Counts how it ended. `count_hold` gets what counts the hold of a lease that was granted.
    pub(crate) fn end<L>(
        mut self,
        acquired: Result<L, AcquireError>,
        count_hold: impl FnOnce(&L, &Span, &dyn Fn(u32) -> Arc<CountedHold>),
    ) -> Result<L, AcquireError> {
        if let Some(totals) = self.totals.take() {
            let now = self.clock.now();
            let outcome = match &acquired {
                Ok(lease) => {
                    totals.waits.add_time(now.saturating_since(self.began));
                    let begin = |permits| CountedHold::begin(totals, permits, now);
                    count_hold(lease, &self.span, &begin);
                    GRANTED
                }
                Err(error) => {
                    if let AcquireError::TimedOut {
                        holder: Some(holder),
                        ..
                    } = error
                    {
                        self.span.record("holder", &*holder.client);
                    }
                    outcome(error)
                }
            };
            totals.acquires.add(outcome);
            self.describe(outcome, now);
        }
        acquired
    }

    /// Ends one that was no acquisition in the end: its caller got the result of another.
    pub(crate) fn end_untold(mut self) {
        if let Some(totals) = self.totals.take() {
            totals.begun.fetch_sub(1, Ordering::Relaxed);
            self.describe("not_begun", self.clock.now());
        }
    }

    fn describe(&self, outcome: &str, now: Moment) {
        let waited = now.saturating_since(self.began);
        self.span.record("outcome", outcome);
        self.span.record("waited_ms", waited.as_millis());
    }
}

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        if let Some(totals) = self.totals {
            totals.acquires.add(CANCELLED);
            self.describe(CANCELLED, self.clock.now());
        }
    }
}

/// The caller's own callback, and with a subscriber one that also shows each poll in the span of the acquisition.
pub(crate) fn reported(own: Option<OnWait>, shown: Option<&Arc<Span>>) -> Option<OnWait> {
    let Some(span) = shown.map(Arc::downgrade) else {
        return own;
    };
    Some(Arc::new(move |waiting: &Waiting| {
        if let Some(span) = span.upgrade() {
            span.record("position", waiting.position);
            span.record("holder", waiting.holder.as_ref().map(|it| &*it.client));
        }
        if let Some(own) = &own {
            own(waiting);
        }
    }))
}

/// The span of the acquisition in which this is called, if a subscriber listens. It ends with the wait: a callback may lie
/// with the lease for longer.
pub(crate) fn shown() -> Option<Arc<Span>> {
    let span = Span::current();
    span.has_field("wait_limit_ms").then(|| Arc::new(span))
}

/// The records of several names share one: the first of them that ends is the end of the lease.
pub(crate) struct CountedHold {
    pub(crate) totals: Arc<KindTotals>,
    permits: u64,
    since: Moment,
    is_over: AtomicBool,
    /// Once its holder asks for it, until the end.
    span: Mutex<Span>,
}

impl CountedHold {
    pub(super) fn begin(totals: &Arc<KindTotals>, permits: u32, since: Moment) -> Arc<Self> {
        let permits = u64::from(permits);
        totals.held.fetch_add(1, Ordering::Relaxed);
        totals.add_permits(permits);
        Arc::new(CountedHold {
            totals: Arc::clone(totals),
            permits,
            since,
            is_over: AtomicBool::new(false),
            span: Mutex::new(Span::none()),
        })
    }

    /// Returns the span of the hold, which the first call makes.
    pub(crate) fn span(&self, make: impl FnOnce(&KindTotals) -> Span) -> Span {
        let mut span = hold(&self.span);
        if span.is_disabled() && !self.is_over.load(Ordering::Relaxed) {
            *span = make(&self.totals);
        }
        span.clone()
    }

    pub(crate) fn end(&self, now: Moment, reason: LostReason) {
        if self.is_over.swap(true, Ordering::Relaxed) {
            return;
        }
        self.totals.add_permits(self.permits.wrapping_neg());
        let held = now.saturating_since(self.since);
        self.totals.holds.add_time(held);
        let loss = loss(reason);
        if let Some(reason) = loss {
            self.totals.losses.add(reason);
        }
        let span = std::mem::replace(&mut *hold(&self.span), Span::none()); // views may keep the record for long
        span.record("held_ms", held.as_millis());
        span.record("outcome", loss.unwrap_or("released"));
    }
}

impl Drop for CountedHold {
    /// A lease whose record is gone is held no more.
    fn drop(&mut self) {
        if !*self.is_over.get_mut() {
            self.totals.held.fetch_sub(1, Ordering::Relaxed);
            self.totals.add_permits(self.permits.wrapping_neg());
        }
    }
}
