//! Tries without a queue entry: one, or as many as the caller counts, with pauses that it chose.

use std::time::Duration;

use super::ask::Ask;
use super::schedule;
use crate::base::Moment;
use crate::base::error::AcquireError;
use crate::engine::guard::lease::Lease;

impl Ask<'_> {
    /// Each try has a token of its own. `count`: how many tries follow the first one; `None`: no limit.
    ///
    /// It counts tries, so it has a loop of its own.
    pub(super) async fn retry(
        &mut self,
        start: Moment,
        count: Option<u32>,
        delay: Duration,
        jitter_percent: u8,
    ) -> Result<Lease, AcquireError> {
        let mut left = count;
        let mut retries: u32 = 0;
        loop {
            let error = match self.try_once().await {
                Ok(Ok(lease)) => return Ok(lease.after(retries)),
                Ok(Err(seen)) => self.still_busy(start, Some(seen)).after(retries),
                Err(source) if !source.is_transient() => return Err(self.error(source, false)),
                Err(source) => self.error(source, false),
            };
            if left == Some(0) {
                return Err(error);
            }
            left = left.map(|left| left - 1);
            retries = retries.saturating_add(1);
            let pause = schedule::jittered(delay, jitter_percent);
            self.engine.clock.sleep(pause).await;
            self.renew_token()?;
        }
    }
}
