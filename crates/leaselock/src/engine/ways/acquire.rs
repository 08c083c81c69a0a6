//! The way in which an acquisition waits: at once, by retries, in the queue, by rounds of votes, or as another library
//! does.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::{Acquisition, Outcome};
use super::first_try::FirstTry;
use super::local::groups::LocalGroups;
use super::schedule;
use crate::base::clock::Moment;
use crate::base::error::{AcquireError, StoreError};
use crate::engine::guard::lease::Lease;
use crate::engine::guard::replicas::confirm::confirmed;
use crate::engine::guard::replicas::unconfirmed::GiveBack;
use crate::engine::values::grant::Seen;
use crate::engine::values::request::Wait;

impl Acquisition<'_> {
    /// Follows the wait policy to its end.
    pub(crate) async fn run(
        &mut self,
        wait: Wait,
        groups: &Arc<LocalGroups>,
    ) -> Result<Lease, AcquireError> {
        match self.owner.clone().filter(|_| self.becomes.is_none()) {
            None => self.grant(wait, groups).await, // the owner of a lease that changes holds it already
            Some(owner) => Box::pin(self.run_as(&owner, wait, groups)).await, // seldom
        }
    }

    /// Acquires from the store; a grant counts once there are as many copies of it as were asked for.
    pub(super) async fn grant(
        &mut self,
        wait: Wait,
        groups: &Arc<LocalGroups>,
    ) -> Result<Lease, AcquireError> {
        let copies = self.request.copies;
        let lease = self.granted_by(wait, groups).await?;
        match copies {
            None => Ok(lease),
            Some(copies) => Box::pin(confirmed(lease, copies, GiveBack::Release)).await, // seldom
        }
    }

    async fn granted_by(
        &mut self,
        wait: Wait,
        groups: &Arc<LocalGroups>,
    ) -> Result<Lease, AcquireError> {
        self.enters_queue = matches!(wait, Wait::Timeout(_) | Wait::Forever);
        let start = self.engine.clock.now();
        let end = match wait {
            Wait::Never => return Box::pin(self.retry(start, Some(0), Duration::ZERO, 0)).await,
            Wait::Poll {
                count,
                delay,
                jitter_percent,
            } => return Box::pin(self.retry(start, count, delay, jitter_percent)).await,
            Wait::Timeout(limit) => Some(start.plus(limit)),
            Wait::Forever => None,
        };
        if self.request.custom.is_some() {
            return Box::pin(self.wait_by_polling(start, end)).await;
        }
        #[cfg(feature = "redis")]
        if let Some(quorum) = self.engine.store.majority() {
            return Box::pin(self.wait_by_voting(quorum, start, end)).await;
        }
        let first = self.try_with_others(Some(groups), start).await;
        match first.map_err(|source| self.error(source, false))? {
            FirstTry::Granted(lease) => Ok(lease),
            FirstTry::StartedWait(begun) => {
                self.wait_in_queue(groups, start, end, wait, begun).await
            }
        }
    }

    /// Tries without a queue entry. Each try has a token of its own.
    async fn retry(
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
                Err(source) if !source.may_pass() => return Err(self.error(source, false)),
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

    /// One request: the lease, or what keeps it from being granted.
    pub(super) async fn try_once(&mut self) -> Result<Result<Lease, Seen>, StoreError> {
        #[cfg(feature = "redis")]
        if !self.engine.store.has_queue()
            && let Some(lease) = Box::pin(self.try_votes_with_others()).await?
        {
            return Ok(Ok(lease));
        }
        let t0 = self.engine.clock.now();
        self.prepare_custom().await?;
        let guard = self.guard_from(t0);
        let within = self.engine.request_timeout(self.request.ttl);
        match self.request(false, "", t0, within).await {
            Ok(Outcome::Granted(lease, _)) => {
                guard.settle();
                Ok(Ok(lease))
            }
            Ok(Outcome::Busy(seen) | Outcome::Waiting(seen, ..)) => {
                guard.settle();
                Ok(Err(seen))
            }
            Err(source) => {
                guard.settle_unless(source.maybe_applied());
                Err(source)
            }
        }
    }

    /// Others were seen to want the lock a moment ago.
    #[cfg(feature = "redis")]
    pub(super) fn is_contended(&self) -> bool {
        let now = self.engine.clock.now();
        self.engine.requests.is_contended(&self.resource.lock, now)
    }
}
