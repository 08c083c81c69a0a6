//! What a client has counted, as values.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::atomic::Ordering;

use crate::base::counters::Histogram;
use crate::engine::services::{Engine, KindTotals};

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
    /// What callers of [`Once`](crate::once::Once) were told: `ran`, `replayed` (the result of another run), `failed`,
    /// `crashed`, `given_up`, `differs` (another request under this key), or `unrecorded` (it ran, and no result was
    /// stored).
    pub runs: BTreeMap<&'static str, u64>,
    /// What became of the ticks that this client claimed: `run`, `over`, `overlap`, `missed`, `stale` (a later tick began
    /// before this one ended), or `unrecorded` (it ran, and its end was not stored).
    pub ticks: BTreeMap<&'static str, u64>,
    /// How long after their time, by the store's clock, this client began ticks, in microseconds.
    pub tick_delays: Distribution,
    /// Permits that callers asked of limiters: `allowed`, or `limited`.
    pub limiter_permits: BTreeMap<&'static str, u64>,
    /// Changes of counters whose callers awaited the reply: `counted`, `refused`, or `unknown`.
    pub counter_changes: BTreeMap<&'static str, u64>,
    /// How many quarantines of [strict mode](crate::ClientBuilder::strict) this client met.
    pub quarantines: u64,
    /// How many leases and requests the client still has to undo: dropped, or of an unknown outcome.
    pub cleanups_pending: u64,
    /// Each server by host and port: whether the latest attempt to connect worked, of several clients that of each.
    pub connected: BTreeMap<String, bool>,
    /// Requests that have ended: by what they were for, and how they ended. One to several servers counts at each of them.
    pub requests: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    /// How long they took, in microseconds, by what they were for.
    pub request_times: BTreeMap<&'static str, Distribution>,
    /// Arrivals that the store confirmed, at a `latch`, also again of a party that had arrived, or at a `barrier`.
    pub arrivals: BTreeMap<&'static str, u64>,
    /// Generations of barriers that passed: the client of the first party of each counts it.
    pub barrier_generations: u64,
}

/// What was counted for one kind of lock and one class.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct KindStats {
    /// `mutex`, also for a writer and in the protocol of another library, `several` for several names under one lease,
    /// `read`, `upgradable`, `permits`, `leader`, `once` or `cron`.
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
    /// The share of its time that a lease had left when a renewal was confirmed, in millionths.
    ///
    /// Its time is what the store last granted: the ttl, or five seconds at most after a hand-over.
    pub headroom: Distribution,
    /// How many leases are held now.
    pub held: u64,
    /// How many permits they hold; none of any kind but `permits`.
    pub permits: u64,
    /// How many acquisitions have not ended.
    pub waiting: u64,
}

/// How values are distributed, as a cumulative histogram of whole numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
        let (kinds, nouns) = (engine.totals.all(), &engine.totals.nouns);
        let (store, tried) = (&engine.store, engine.store.tried().into_iter());
        let all = || store.requests().all();
        Stats {
            clock_jumps: engine.clock_watch.jumps(),
            last_clock_jump_ms: engine.clock_watch.last_ms(),
            kinds: kinds.map(|totals| KindStats::of(totals)).collect(),
            runs: nouns.runs.snapshot(),
            ticks: nouns.ticks.snapshot(),
            tick_delays: Distribution::of(&nouns.delays),
            limiter_permits: nouns.permits.snapshot(),
            counter_changes: nouns.changes.snapshot(),
            quarantines: (engine.strict.as_ref()).map_or(0, |it| it.met.load(Ordering::Relaxed)),
            cleanups_pending: engine.started().map_or(0, |it| it.cleanup.open() as u64),
            connected: tried.map(|(at, error)| (at, error.is_none())).collect(),
            requests: all().map(|(op, it)| (op, it.0.snapshot())).collect(),
            request_times: all()
                .map(|(op, it)| (op, Distribution::of(&it.1)))
                .collect(),
            arrivals: nouns.arrivals.snapshot(),
            barrier_generations: nouns.generations.load(Ordering::Relaxed),
        }
    }
}

impl KindStats {
    fn of(totals: &KindTotals) -> Self {
        let (held, waiting) = totals.held_and_waiting();
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
            held,
            permits: totals.permits.load(Ordering::Relaxed),
            waiting,
        }
    }

    fn add(&mut self, other: &KindStats) {
        add_all([
            (&mut self.acquires, &other.acquires),
            (&mut self.losses, &other.losses),
            (&mut self.releases, &other.releases),
            (&mut self.renewals, &other.renewals),
        ]);
        self.waits.add(&other.waits);
        self.holds.add(&other.holds);
        self.headroom.add(&other.headroom);
        self.held += other.held;
        self.permits += other.permits;
        self.waiting += other.waiting;
    }
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
        let bounds = other.buckets.iter().map(|(bound, _)| (*bound, 0));
        self.buckets.extend(bounds.skip(self.buckets.len())); // the sum of no client has none
        let both = self.buckets.iter_mut().zip(&other.buckets);
        both.for_each(|((_, here), (_, there))| *here += there);
        self.count += other.count;
        self.sum += other.sum;
    }
}

impl AddAssign for Stats {
    fn add_assign(&mut self, other: Stats) {
        self.clock_jumps += other.clock_jumps;
        self.quarantines += other.quarantines;
        self.cleanups_pending += other.cleanups_pending;
        self.last_clock_jump_ms = other.last_clock_jump_ms.or(self.last_clock_jump_ms);
        add_all([
            (&mut self.runs, &other.runs),
            (&mut self.ticks, &other.ticks),
            (&mut self.limiter_permits, &other.limiter_permits),
            (&mut self.counter_changes, &other.counter_changes),
            (&mut self.arrivals, &other.arrivals),
        ]);
        for (server, is_connected) in other.connected {
            *self.connected.entry(server).or_insert(true) &= is_connected;
        }
        for (op, theirs) in &other.requests {
            add_all([(self.requests.entry(op).or_default(), theirs)]);
        }
        for (op, theirs) in &other.request_times {
            self.request_times.entry(op).or_default().add(theirs);
        }
        self.barrier_generations += other.barrier_generations;
        self.tick_delays.add(&other.tick_delays);
        for theirs in other.kinds {
            let mut all = self.kinds.iter_mut();
            match all.find(|ours| ours.kind == theirs.kind && ours.class == theirs.class) {
                Some(ours) => ours.add(&theirs),
                None => self.kinds.push(theirs),
            }
        }
    }
}

type Labelled = BTreeMap<&'static str, u64>;

fn add_all<const N: usize>(counts: [(&mut Labelled, &Labelled); N]) {
    for (ours, theirs) in counts {
        for (label, count) in theirs {
            *ours.entry(label).or_default() += count;
        }
    }
}
