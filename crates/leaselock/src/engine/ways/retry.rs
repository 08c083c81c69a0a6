//! Tries without a queue entry: one, or as many as the caller counts, with pauses that it chose. A try is a script call,
//! the way of another library, or a round of votes.

use std::sync::Arc;
use std::time::Duration;

use super::ask::{Ask, Outcome};
use super::first_try::FirstTry;
use super::schedule;
use crate::base::error::AcquireError;
use crate::base::{Moment, Result, StoreError};
use crate::engine::guard::lease::Lease;
use crate::engine::values::custom::TakeOutcome;
use crate::engine::values::{CustomLock, LockServer, Seen};

impl Ask<'_> {
    /// Each try has a token of its own. `count`: how many tries follow the first one; `None`: no limit.
    ///
    /// It counts tries, so it has a loop of its own.
    pub(super) async fn retry(
        &mut self,
        count: Option<u32>,
        delay: Duration,
        jitter_percent: u8,
    ) -> Result<Lease, AcquireError> {
        let mut left = count;
        let mut retries: u32 = 0;
        loop {
            let error = match self.try_once().await {
                Ok(Ok(lease)) => return Ok(lease.after(retries)),
                Ok(Err(seen)) => self.still_busy(Some(seen)).after(retries),
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

    /// The lease, or what keeps it from being granted.
    pub(super) async fn try_once(&mut self) -> Result<Result<Lease, Seen>> {
        if self.engine.store.is_majority()
            && let Some(lease) = Box::pin(self.try_votes_with_others()).await?
        {
            return Ok(Ok(lease));
        }
        let t0 = self.now();
        self.prepare_custom().await?;
        let guard = self.guard_from(t0);
        let tried = self.try_alone(t0, self.within()).await;
        guard.settle_unless(tried.as_ref().is_err_and(StoreError::maybe_applied));
        tried
    }

    async fn try_alone(&self, t0: Moment, within: Duration) -> Result<Result<Lease, Seen>> {
        if let Some(custom) = &self.custom {
            return Box::pin(self.take(custom, t0, within)).await;
        }
        if let Some(quorum) = self.engine.store.majority() {
            return Box::pin(self.vote_once(quorum, t0, within)).await;
        }
        let call = self.acquire_call(false, "", 1);
        Ok(match self.request(&call, None, t0, within).await? {
            Outcome::Granted(lease, _) => Ok(lease),
            Outcome::Waiting(seen, ..) | Outcome::Busy(seen) => Err(seen),
        })
    }

    /// Makes what the next request writes. It may say when the lock ends, so the lease is counted from before this. It is
    /// new for each try, so that a try whose reply was lost can be told from the next one.
    async fn prepare_custom(&mut self) -> Result<()> {
        let before = self.custom.take();
        let Some(custom) = &self.request.custom else {
            return Ok(());
        };
        let (connections, within) = (self.engine.connections()?, self.within());
        let asked = self.held.for_ttl(self.request.terms.ttl);
        let made = custom.prepare(asked, before, &connections, within);
        self.custom = Some(made.await?);
        Ok(())
    }

    /// Takes the lock in the other library's way.
    async fn take(
        &self,
        custom: &Arc<dyn CustomLock>,
        t0: Moment,
        within: Duration,
    ) -> Result<Result<Lease, Seen>> {
        let server = LockServer::new(&self.engine.store, within);
        match custom.take(server, self.request.terms.ttl).await? {
            TakeOutcome::Taken => self.hold_since(t0, self.now(), None).map(Ok),
            TakeOutcome::Busy { remaining } => Ok(Err(Seen {
                remaining,
                ..Seen::default()
            })),
        }
    }

    /// Makes one try together with other acquisitions, if there are some. If it is in vain, the task tries by itself under
    /// another token: what takes the votes of this one back may come late.
    async fn try_votes_with_others(&mut self) -> Result<Option<Lease>> {
        let tried = self.try_with_others(|| self.has_turns(), self.now());
        match tried.await? {
            FirstTry::Granted(lease) => return Ok(Some(lease)),
            FirstTry::StartedWait(None) => {}
            FirstTry::StartedWait(Some(begun)) => {
                if let Some(source) = begun.progress.error.clone() {
                    begun.guard.settle_unless(source.maybe_applied());
                    return Err(source);
                }
                begun.give_up();
                self.draw_token()?;
            }
        }
        Ok(None)
    }
}
