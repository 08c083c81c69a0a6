//! What a client has counted, as values.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::engine::services::core::Engine;
use crate::engine::services::totals::histogram::Histogram;
use crate::engine::services::totals::kind_totals::KindTotals;

/// What a client has counted since it was built; see [`Client::stats`](crate::Client::stats).
///
/// Counters only grow. `stats += other` adds those of another client, for a process that has several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Stats {
    /// How often the store's clock was seen to jump against ours.
    ///
    /// Leases that were held then ended early or late on the store. Each time, the client verified all its leases at
    /// once.
    pub clock_jumps: u64,
    /// Milliseconds of the last jump: forward, or back when below zero. `None` when there was none.
    pub last_clock_jump_ms: Option<i64>,
    /// One entry for each kind of lock and class that the client has used.
    pub kinds: Vec<KindStats>,
}

/// What was counted for one kind of lock and one class.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct KindStats {
    /// `mutex`, also for a writer and in the protocol of another library, `several` for several names under one lease,
    /// `read`, `upgradable`, `permits` or `leader`.
    pub kind: &'static str,
    /// The [class](crate::Mutex::class); empty without one.
    pub class: String,
    /// Acquisitions that have ended, by how: `granted`, the errors of [`AcquireError`](crate::AcquireError), and
    /// `cancelled` for those that were dropped.
    pub acquires: BTreeMap<&'static str, u64>,
    /// Leases that ended against their holder's will, by the [reason](crate::LostReason).
    pub losses: BTreeMap<&'static str, u64>,
    /// Releases that a caller awaited, by their outcome: `ok`, `not_held`, `unknown` or `store`.
    pub releases: BTreeMap<&'static str, u64>,
    /// Renewals, by their outcome: `ok` or `failed`.
    pub renewals: BTreeMap<&'static str, u64>,
    /// How long granted acquisitions took, in microseconds.
    pub waits: Distribution,
    /// How long leases were held that have ended, in microseconds.
    pub holds: Distribution,
    /// The share of its ttl that a lease had left when a renewal was confirmed, in millionths.
    pub headroom: Distribution,
    /// How many leases are held now.
    pub held: u64,
    /// How many acquisitions have not ended.
    pub waiting: u64,
}

/// How values are distributed, as a cumulative histogram of whole numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Distribution {
    /// Each bound, the smallest first, with how many values were not larger.
    pub buckets: Vec<(u64, u64)>,
    /// How many values there were.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
}

impl Stats {
    pub(super) fn of(engine: &Engine) -> Self {
        let kinds = engine.totals.all().map(|totals| KindStats::of(totals));
        Stats {
            clock_jumps: engine.clock_watch.jumps(),
            last_clock_jump_ms: engine.clock_watch.last_ms(),
            kinds: kinds.collect(),
        }
    }
}

impl KindStats {
    fn of(totals: &KindTotals) -> Self {
        KindStats {
            kind: totals.kind,
            class: totals.class.to_string(),
            acquires: totals.acquires.snapshot(),
            losses: totals.losses.snapshot(),
            releases: totals.releases.snapshot(),
            renewals: totals.renewals.snapshot(),
            waits: Distribution::of(&totals.waits),
            holds: Distribution::of(&totals.holds),
            headroom: Distribution::of(&totals.headroom),
            held: now(&totals.held),
            waiting: now(&totals.waiting),
        }
    }
}

/// A gauge that is read while it changes may be below zero for a moment.
fn now(gauge: &AtomicI64) -> u64 {
    u64::try_from(gauge.load(Ordering::Relaxed)).unwrap_or(0)
}

impl Distribution {
    fn of<const N: usize>(histogram: &Histogram<N>) -> Self {
        let (buckets, count, sum) = histogram.snapshot();
        Distribution {
            buckets,
            count,
            sum,
        }
    }

    fn add(&mut self, other: &Distribution) {
        let both = self.buckets.iter_mut().zip(&other.buckets);
        both.for_each(|((_, here), (_, there))| *here += there);
        self.count += other.count;
        self.sum += other.sum;
    }
}

impl AddAssign for Stats {
    fn add_assign(&mut self, other: Stats) {
        self.clock_jumps += other.clock_jumps;
        self.last_clock_jump_ms = other.last_clock_jump_ms.or(self.last_clock_jump_ms);
        for theirs in other.kinds {
            let alike =
                |ours: &&mut KindStats| (ours.kind, &ours.class) == (theirs.kind, &theirs.class);
            match self.kinds.iter_mut().find(alike) {
                Some(ours) => ours.add(&theirs),
                None => self.kinds.push(theirs),
            }
        }
    }
}

impl KindStats {
    fn add(&mut self, other: &KindStats) {
        let counts = [
            (&mut self.acquires, &other.acquires),
            (&mut self.losses, &other.losses),
            (&mut self.releases, &other.releases),
            (&mut self.renewals, &other.renewals),
        ];
        for (ours, theirs) in counts {
            for (label, count) in theirs {
                *ours.entry(label).or_default() += count;
            }
        }
        self.waits.add(&other.waits);
        self.holds.add(&other.holds);
        self.headroom.add(&other.headroom);
        self.held += other.held;
        self.waiting += other.waiting;
    }
}
