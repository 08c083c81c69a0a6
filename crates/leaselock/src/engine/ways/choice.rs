//! The choice of a way: by the owner, the wait policy, the protocol and the store.
//!
//! Each way is a method of [`Ask`], from the first request to the grant or the error; only the queue, with which others go
//! on, is a value of its own, and several names have a function. What a dropped future may have left
//! on the store is cleaned up in the background.

use std::sync::Arc;
use std::time::Duration;

use super::ask::Ask;
use super::first_try::FirstTry;
use super::local::group::GroupTerms;
use super::local::groups::LocalGroups;
use super::queue::way::Queue;
use crate::base::error::AcquireError;
use crate::engine::guard::lease::Lease;
use crate::engine::guard::replicas::confirm::confirmed;
use crate::engine::guard::replicas::unconfirmed::GiveBack;
use crate::engine::values::Wait;

impl Ask<'_> {
    /// Follows the wait policy to its end.
    pub(crate) async fn acquire(
        mut self,
        wait: Wait,
        groups: &Arc<LocalGroups>,
    ) -> Result<Lease, AcquireError> {
        match self.owner.clone().filter(|_| self.becomes.is_none()) {
            None => self.grant(wait, groups).await, // the owner of a lease that changes holds it already
            Some(owner) => Box::pin(self.acquire_for(owner, wait, groups)).await, // seldom
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

    /// Each way but the last one is boxed: its future is large, and most locks are free.
    async fn granted_by(
        &mut self,
        wait: Wait,
        groups: &Arc<LocalGroups>,
    ) -> Result<Lease, AcquireError> {
        let start = self.now();
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
            return Box::pin(self.poll(start, end)).await;
        }
        let engine = self.engine;
        if let Some(quorum) = engine.store.majority() {
            return Box::pin(self.vote(quorum, start, end)).await;
        }
        let is_waited_for = || groups.has(&self.resource.lock);
        let first = self.try_with_others(is_waited_for, start).await;
        let begun = match first.map_err(|source| self.error(source, false))? {
            FirstTry::Granted(lease) => return Ok(lease),
            FirstTry::StartedWait(begun) => begun,
        };
        let terms = GroupTerms::of(self.resource.kind, &self.request, wait);
        match terms.filter(|_| self.owner.is_none()) {
            Some(terms) => {
                self.wait_with_others(groups, terms, start, end, begun)
                    .await
            }
            None => Box::pin(Queue::new(self, start, end, begun).run()).await,
        }
    }
}
