//! The choice of a way: by the owner, the wait policy, the protocol and the store.
//!
//! Each way is a method of [`Ask`], from the first request to the grant or the error; only several names have a function.
//! What a dropped future may have left on the store is cleaned up in the background.

use std::sync::Arc;
use std::time::Duration;

use super::ask::Ask;
use super::first_try::FirstTry;
use super::local::group::GroupTerms;
use super::local::groups::LocalGroups;
use crate::base::error::{AcquireError, Link};
use crate::base::keyed_mutex::KeyedMutexGuard;
use crate::engine::guard::lease::Lease;
use crate::engine::guard::owner::Owner;
use crate::engine::guard::owner::handle::Guard;
use crate::engine::guard::owner::holds::FoundHold;
use crate::engine::guard::replicas::{GiveBack, confirmed};
use crate::engine::values::{LockMode, Seen, Wait};

impl Ask<'_> {
    /// Follows the wait policy to its end.
    pub(crate) async fn acquire(
        &mut self,
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
        let lease = self.follow_way(wait, groups).await?;
        match copies {
            None => Ok(lease),
            Some(copies) => Box::pin(confirmed(lease, copies, GiveBack::Release)).await, // seldom
        }
    }

    /// Chooses a way, and follows it. Each but the last is boxed: its future is large, and most locks are free.
    async fn follow_way(
        &mut self,
        wait: Wait,
        groups: &Arc<LocalGroups>,
    ) -> Result<Lease, AcquireError> {
        self.end = match wait {
            Wait::Never => return Box::pin(self.retry(Some(0), Duration::ZERO, 0)).await,
            Wait::Poll {
                count,
                delay,
                jitter_percent,
            } => return Box::pin(self.retry(count, delay, jitter_percent)).await,
            Wait::Timeout(limit) => Some(self.start.plus(limit)),
            Wait::Forever => None,
        };
        if self.request.custom.is_some() {
            return Box::pin(self.poll()).await;
        }
        let engine = self.engine;
        if let Some(quorum) = engine.store.majority() {
            return Box::pin(self.vote(quorum)).await;
        }
        let is_waited_for = || groups.has(self.lock());
        let first = self.try_with_others(is_waited_for, self.start).await;
        let begun = match first.map_err(|source| self.error(source, false))? {
            FirstTry::Granted(lease) => return Ok(lease),
            FirstTry::StartedWait(begun) => begun,
        };
        let terms = GroupTerms::of(self.held.resource.kind, &self.request, wait);
        match terms.filter(|_| self.owner.is_none()) {
            Some(terms) => self.wait_with_others(groups, terms, begun).await,
            None => Box::pin(self.wait_alone(begun)).await,
        }
    }
}

impl Ask<'_> {
    /// Acquires for this owner. It stands in the queue by itself: its lease passes to no other task.
    pub(super) async fn acquire_for(
        &mut self,
        owner: Owner,
        mut wait: Wait,
        groups: &Arc<LocalGroups>,
    ) -> Result<Lease, AcquireError> {
        let mode = LockMode::of(&self.held.resource);
        if let Some(lease) = self.covered(&owner, mode)? {
            return Ok(lease);
        }
        let mut turn = None;
        if !matches!(mode, LockMode::Permits(_)) {
            turn = Some(self.turn(&owner, wait).await?);
            if let Some(lease) = self.covered(&owner, mode)? {
                return Ok(lease); // another task of the owner has acquired it meanwhile
            }
        }
        let (now, start) = (self.now(), self.start);
        if let Wait::Timeout(limit) = wait {
            wait = Wait::Timeout(limit.saturating_sub(now.saturating_since(start)));
        }
        self.start = now;
        let lease = self.grant(wait, groups).await?;
        let number = owner.state.holds().add(mode, &lease, &self.request);
        drop(turn); // after the entry, which the next task of the owner finds
        Ok(self.guarded(&owner, lease, number))
    }

    fn guarded(&self, owner: &Owner, lease: Lease, number: u64) -> Lease {
        let guard = Guard::new(&owner.state, self.lock(), number);
        lease.shared(Arc::new(guard))
    }

    /// Another guard of a lease that the owner holds. Sends no request.
    fn covered(&self, owner: &Owner, mode: LockMode) -> Result<Option<Lease>, AcquireError> {
        let mut holds = owner.state.holds();
        let (found, number) = holds.find(self.lock(), mode);
        let lease = match found {
            FoundHold::Nothing => return Ok(None),
            FoundHold::Covered(hold) => hold.share(self.engine, number, &self.request)?,
            FoundHold::Lost(lost) => return Err(AcquireError::LostBefore(lost)),
            FoundHold::WaitsForItself(way_out) => {
                let name = self.name.clone();
                let link = Link {
                    owner: owner.label().to_owned(),
                    client: self.engine.ids.client.as_str().to_owned(),
                    holds: name.clone(),
                    waits_for: name.clone(),
                    since: Duration::ZERO,
                };
                return Err(AcquireError::Deadlock {
                    name,
                    circle: vec![link],
                    way_out: Some(way_out),
                });
            }
        };
        drop(holds);
        Ok(Some(self.guarded(owner, lease, number)))
    }

    /// Waits until no other task of the owner acquires this name: its lease will cover this request, or it gives up.
    async fn turn(&self, owner: &Owner, wait: Wait) -> Result<KeyedMutexGuard, AcquireError> {
        let end = wait.limit().map(|limit| self.start.plus(limit));
        let interest = owner.state.turns.interest(self.lock());
        tokio::select! {
            biased;
            turn = interest.turn() => Ok(interest.enter(turn)),
            () = self.engine.clock.sleep_until_end(end) => {
                Err(self.still_busy(Seen::held_by(self.engine.ids.client.as_str())))
            }
        }
    }
}
