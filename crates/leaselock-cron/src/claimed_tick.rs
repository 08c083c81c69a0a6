//! A tick of a schedule from its first claim until it is settled.

use std::time::{Duration, SystemTime};

use leaselock::clock::Moment;
use leaselock::satellite::TickCalls;

#[derive(Debug)]
pub(crate) struct ClaimedTick {
    tick: SystemTime,
    /// All claims are one call, so that the tick of a claim that was dropped goes to the next one.
    pub(crate) calls: TickCalls,
    /// Until when the claim of another host may be taken back.
    counts_from: Option<Moment>,
}

impl ClaimedTick {
    pub(crate) fn new(tick: SystemTime) -> Self {
        ClaimedTick {
            tick,
            calls: TickCalls::default(),
            counts_from: None,
        }
    }

    pub(crate) fn is(&self, tick: SystemTime) -> bool {
        self.tick == tick
    }

    /// Returns for how long the claim of another host may still be taken back, of `usual` since it was seen first.
    pub(crate) fn may_be_taken_back_for(
        &mut self,
        usual: Duration,
        now: Moment,
    ) -> Option<Duration> {
        let counts_from = *self.counts_from.get_or_insert(now.plus(usual));
        let rest = counts_from.saturating_since(now);
        (!rest.is_zero()).then_some(rest)
    }
}
