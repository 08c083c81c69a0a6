//! Tries without a queue entry: one, or as many as the caller counts, with pauses that it chose.

use std::time::Duration;

use super::ask::Ask;
use super::schedule;
use super::way::Way;
use crate::base::clock::Moment;
use crate::base::error::AcquireError;
use crate::engine::guard::lease::Lease;

/// Each try has a token of its own.
pub(super) struct Retry<'w, 'a> {
    pub(super) ask: &'w mut Ask<'a>,
    pub(super) start: Moment,
    /// How many tries follow the first one; `None`: no limit.
    pub(super) count: Option<u32>,
    pub(super) delay: Duration,
    pub(super) jitter_percent: u8,
}

impl Way for Retry<'_, '_> {
    type Got = Lease;

    /// Counts tries, so it has a loop of its own.
    async fn run(self) -> Result<Lease, AcquireError> {
        let ask = self.ask;
        let mut left = self.count;
        let mut retries: u32 = 0;
        loop {
            let error = match ask.try_once().await {
                Ok(Ok(lease)) => return Ok(lease.after(retries)),
                Ok(Err(seen)) => ask.still_busy(self.start, Some(seen)).after(retries),
                Err(source) if !source.is_transient() => return Err(ask.error(source, false)),
                Err(source) => ask.error(source, false),
            };
            if left == Some(0) {
                return Err(error);
            }
            left = left.map(|left| left - 1);
            retries = retries.saturating_add(1);
            let pause = schedule::jittered(self.delay, self.jitter_percent);
            ask.engine.clock.sleep(pause).await;
            ask.renew_token()?;
        }
    }
}
