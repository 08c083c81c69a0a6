//! A tick of a schedule from its first claim until it is settled.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::base::clock::Moment;
use crate::engine::ways::trying::CallNumbers;

#[derive(Debug)]
pub(super) struct ClaimedTick {
    tick: SystemTime,
    /// All claims are one call, so that the tick of a claim that was dropped goes to the next one.
    pub(super) calls: Arc<CallNumbers>,
    /// Until when the claim of another host may be taken back.
    counts_from: Option<Moment>,
}

impl ClaimedTick {
    pub(super) fn new(tick: SystemTime) -> Self {
        ClaimedTick {
            tick,
            calls: Arc::default(),
            counts_from: None,
        }
    }

    pub(super) fn is(&self, tick: SystemTime) -> bool {
        self.tick == tick
    }

    /// Returns for how long the claim of another host may still be taken back, of `usual` since it was seen first.
    pub(super) fn may_be_taken_back_for(
        &mut self,
        usual: Duration,
        now: Moment,
    ) -> Option<Duration> {
        let counts_from = *self.counts_from.get_or_insert(now.plus(usual));
        let rest = counts_from.saturating_since(now);
        (!rest.is_zero()).then_some(rest)
    }
}
