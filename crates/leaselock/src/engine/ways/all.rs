//! Several locks by one request: all of them or none.

use super::ask::Ask;
use crate::base::error::AcquireError;
use crate::base::{Moment, StoreError, slots};
use crate::engine::guard::lease::Lease;
use crate::engine::services::CleanupGuard;
use crate::engine::values::calls::{AcquireAll, AcquiredAll};
use crate::engine::values::{Acquired, Held, Resource};
use crate::quorum::executor::Executor;

/// What one request for several locks came to.
pub(crate) enum TryAll {
    /// The leases, in the order of what was asked for.
    Granted(Vec<Lease>),
    /// Nothing is held. The error names the lock that was busy.
    Busy(AcquireError),
    /// Nothing is held, and one request cannot decide: each lock needs its own.
    OneByOne,
}

/// Returns true if the keys of all these locks can be in one call.
pub(crate) fn share_a_call<'a>(
    store: &Executor,
    mut locks: impl Iterator<Item = &'a Resource>,
) -> bool {
    if store.is_majority() {
        return false; // nodes vote on each lock by itself
    }
    if store.capabilities().combines {
        return true;
    }
    // A node of a cluster, or a file of a folder, has all keys of one hash tag.
    let first = locks.next().map(|first| slots::tag(&first.lock));
    locks.all(|other| Some(slots::tag(&other.lock)) == first)
}

/// Acquires all locks by one request, if each is free and has no waiter. They are asked for with the same options.
///
/// An error says that the store did not serve the request.
pub(crate) async fn acquire_all(asks: &mut [Ask<'_>]) -> Result<TryAll, AcquireError> {
    let Some((first, others)) = asks.split_first_mut() else {
        return Ok(TryAll::OneByOne);
    };
    for other in others {
        other.held.token = first.held.token.clone();
    }
    let (first, engine) = (&asks[0], asks[0].engine);
    let held: Vec<&Held> = asks.iter().map(|one| &one.held).collect();
    let Some(step) = &first.held.resource.kind.acquire_all else {
        return Ok(TryAll::OneByOne);
    };
    // Replicas confirm each grant by itself; an owner may hold some of the names.
    let each_by_itself = first.request.copies.is_some() || first.owner.is_some();
    if each_by_itself || !share_a_call(&engine.store, held.iter().map(|one| &one.resource)) {
        return Ok(TryAll::OneByOne);
    }
    let t0 = engine.clock.now();
    let guards: Vec<CleanupGuard> = asks.iter().map(|one| one.guard_from(t0)).collect();
    let acquire = AcquireAll {
        step,
        held: &held,
        terms: first.request.terms,
    };
    let outcome = match engine.store.ask_one(&acquire, first.within()).await {
        Ok(answer) => understood(asks, t0, answer),
        Err(source) => Err(source),
    };
    let may_exist = outcome.as_ref().is_err_and(StoreError::maybe_applied);
    for guard in guards {
        guard.settle_unless(may_exist);
    }
    match outcome {
        Ok(outcome) => Ok(outcome),
        // One of the names, or the call as such, may have caused an error that does not pass.
        Err(source) if !may_exist && !source.is_transient() => Ok(TryAll::OneByOne),
        Err(source) => Err(asks[0].error(source, may_exist)),
    }
}

fn understood(asks: &[Ask<'_>], t0: Moment, answer: AcquiredAll) -> Result<TryAll, StoreError> {
    let (first, engine) = (&asks[0], asks[0].engine);
    let now = engine.clock.now();
    match answer {
        AcquiredAll::Granted { fences, time_us } => {
            engine.note_time(t0, now, time_us);
            let granted = asks.iter().zip(fences);
            let leases = granted.map(|(one, fence)| one.hold_since(t0, now, fence));
            leases.collect::<Result<_, _>>().map(TryAll::Granted)
        }
        AcquiredAll::Busy { seen, at } => {
            engine.note_time(t0, now, seen.time_us);
            let busy = asks.get(at).unwrap_or(first);
            Ok(TryAll::Busy(busy.still_busy(Some(seen))))
        }
        AcquiredAll::Separate { time_us } => {
            engine.note_time(t0, now, time_us);
            Ok(TryAll::OneByOne)
        }
        AcquiredAll::AtGate(Acquired::Disagrees { longest, .. }) => Err(first.disagrees(longest)),
        AcquiredAll::AtGate(Acquired::Busy { seen }) => {
            first.met_quarantine(&seen, now);
            Ok(TryAll::Busy(first.still_busy(Some(seen))))
        }
        AcquiredAll::AtGate(_) => Ok(TryAll::OneByOne),
    }
}
