//! The choice of a way: by the wait policy, the protocol and the store.

use std::sync::Arc;
use std::time::Duration;

use super::ask::Ask;
use super::first_try::FirstTry;
use super::local::group::GroupTerms;
use super::local::groups::LocalGroups;
use super::local::way::Local;
use super::poll::Poll;
use super::queue::way::Queue;
use super::retry::Retry;
use super::vote::way::Rounds;
use super::way::Way;
use crate::base::error::AcquireError;
use crate::engine::guard::lease::Lease;
use crate::engine::guard::replicas::confirm::confirmed;
use crate::engine::guard::replicas::unconfirmed::GiveBack;
use crate::engine::values::request::Wait;

/// Acquires from the store; a grant counts once there are as many copies of it as were asked for.
pub(super) async fn grant(
    ask: &mut Ask<'_>,
    wait: Wait,
    groups: &Arc<LocalGroups>,
) -> Result<Lease, AcquireError> {
    let copies = ask.request.copies;
    let lease = granted_by(ask, wait, groups).await?;
    match copies {
        None => Ok(lease),
        Some(copies) => Box::pin(confirmed(lease, copies, GiveBack::Release)).await, // seldom
    }
}

/// Each way but the last one is boxed: its future is large, and most locks are free.
async fn granted_by(
    ask: &mut Ask<'_>,
    wait: Wait,
    groups: &Arc<LocalGroups>,
) -> Result<Lease, AcquireError> {
    let start = ask.now();
    let retry = |ask, count, delay, jitter_percent| Retry {
        ask,
        start,
        count,
        delay,
        jitter_percent,
    };
    let end = match wait {
        Wait::Never => {
            let once = retry(ask, Some(0), Duration::ZERO, 0);
            return Box::pin(once.run()).await;
        }
        Wait::Poll {
            count,
            delay,
            jitter_percent,
        } => return Box::pin(retry(ask, count, delay, jitter_percent).run()).await,
        Wait::Timeout(limit) => Some(start.plus(limit)),
        Wait::Forever => None,
    };
    if ask.request.custom.is_some() {
        return Box::pin(Poll { ask, start, end }.run()).await;
    }
    if let Some(quorum) = ask.engine.store.majority() {
        let rounds = Rounds {
            ask,
            quorum,
            start,
            end,
        };
        return Box::pin(rounds.run()).await;
    }
    let is_waited_for = || groups.has(&ask.resource.lock);
    let first = ask.try_with_others(is_waited_for, start).await;
    let begun = match first.map_err(|source| ask.error(source, false))? {
        FirstTry::Granted(lease) => return Ok(lease),
        FirstTry::StartedWait(begun) => begun,
    };
    let terms = GroupTerms::of(ask.resource.kind, &ask.request, wait);
    match terms.filter(|_| ask.owner.is_none()) {
        Some(terms) => {
            let local = Local {
                ask,
                groups,
                terms,
                start,
                end,
                begun,
            };
            local.run().await
        }
        None => Box::pin(Queue::new(ask, start, end, begun).run()).await,
    }
}
