//! Acquiring several names: by one request, or one name after the other in the order of their keys.
//!
//! Every client uses the same order, and never waits for a key while it holds a larger one. So no circle of clients can
//! wait for each other (Coffman, Elphick, Shoshani: *System Deadlocks*, 1971; Havender, 1968).

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use leaselock_fence::Name;

use super::mode::Several;
use crate::base::error::{AcquireError, Lost, OperationError};
use crate::base::{Clock, InvalidInput, Moment};
use crate::client::named::Named;
use crate::engine::guard::lease::Lease;
use crate::engine::services::LossWatch;
use crate::engine::values::{Resource, Wait};
use crate::engine::ways::all::{TryAll, acquire_all};
use crate::engine::ways::schedule;

/// One script reads all of them.
const NAMES_MAX: usize = 100;
/// How often an acquisition begins again after a loss. A store on which leases do not last until the others are
/// acquired would otherwise keep the client busy for ever.
const RESTARTS_MAX: u32 = 3;

/// The names of a multilock, checked.
pub(super) struct Plan<'a> {
    names: &'a [Named],
    /// The indices of the names, smallest key first, and each name.
    order: Vec<(usize, &'a Name)>,
    clock: &'a Clock,
}

impl<'a> Plan<'a> {
    /// Checks names and options; nothing is sent.
    pub(super) fn of(names: &'a [Named]) -> Result<Self, InvalidInput> {
        let Some(first) = names.first() else {
            return Err(no_name());
        };
        if names.len() > NAMES_MAX {
            let message = format!(
                "{} names under one lease: at most {NAMES_MAX}, so that a server is not held up",
                names.len()
            );
            return Err(InvalidInput::new(message));
        }
        if let Some(protocol) = first.options.foreign() {
            let message = format!(
                "`along_with` cannot be had with the protocol {protocol}: use the native protocol"
            );
            return Err(InvalidInput::new(message));
        }
        let resources: Vec<Resource> = names
            .iter()
            .map(Named::resource)
            .collect::<Result<_, _>>()?;
        let known = names.iter().map(Named::name).enumerate();
        let known = known.map(|(at, name)| Ok((at, name?)));
        let mut order = known.collect::<Result<Vec<_>, InvalidInput>>()?;
        order.sort_by_key(|(at, _)| &resources[*at].lock);
        for pair in order.windows(2) {
            if resources[pair[0].0].lock == resources[pair[1].0].lock {
                let message = format!("`{}` occurs twice: name each lock once", pair[0].1);
                return Err(InvalidInput::new(message));
            }
        }
        let clock = &first.state.engine.clock;
        Ok(Plan {
            names,
            order,
            clock,
        })
    }

    /// Follows the wait policy to its end.
    pub(super) async fn acquire(&self, wait: Wait) -> Result<Lease<Several>, AcquireError> {
        let start = self.clock.now();
        let acquired = match wait {
            Wait::Never => self.retry(Some(0), Duration::ZERO, 0).await,
            Wait::Poll {
                count,
                delay,
                jitter_percent,
            } => self.retry(count, delay, jitter_percent).await,
            Wait::Timeout(limit) => self.wait_until(Some(start.plus(limit))).await,
            Wait::Forever => self.wait_until(None).await,
        };
        acquired.map_err(|mut error| {
            if let AcquireError::TimedOut { waited, .. } = &mut error {
                *waited = self.clock.now().saturating_since(start); // for all names
            }
            error
        })
    }

    /// Tries without a queue entry. Each try is for all names.
    async fn retry(
        &self,
        count: Option<u32>,
        delay: Duration,
        jitter_percent: u8,
    ) -> Result<Lease<Several>, AcquireError> {
        let mut retries: u32 = 0;
        loop {
            let error = match self.try_once().await {
                Ok(lease) => return Ok(lease),
                Err(error) => error.after(retries),
            };
            if !may_pass(&error) || count.is_some_and(|count| retries >= count) {
                return Err(error);
            }
            retries = retries.saturating_add(1);
            let pause = schedule::jittered(delay, jitter_percent);
            self.clock.sleep(pause).await;
        }
    }

    async fn try_once(&self) -> Result<Lease<Several>, AcquireError> {
        match self.try_together().await? {
            TryAll::Granted(leases) => Ok(as_one(leases, true)?),
            TryAll::Busy(error) => Err(error),
            TryAll::OneByOne => self.one_by_one(|| Wait::Never).await,
        }
    }

    /// Waits in the queues until `end`, or without a limit.
    async fn wait_until(&self, end: Option<Moment>) -> Result<Lease<Several>, AcquireError> {
        let left = || end.map(|end| end.saturating_since(self.clock.now()));
        let mut restarts = 0;
        loop {
            match self.try_together().await {
                Ok(TryAll::Granted(leases)) => return Ok(as_one(leases, true)?),
                Err(error) if !may_pass(&error) || left().is_some_and(|left| left.is_zero()) => {
                    return Err(error);
                }
                Err(_) | Ok(TryAll::Busy(_) | TryAll::OneByOne) => {}
            }
            let wait = || left().map_or(Wait::Forever, Wait::Timeout);
            match self.one_by_one(wait).await {
                Err(AcquireError::LostWhileWaiting { .. }) if restarts < RESTARTS_MAX => {
                    restarts += 1;
                }
                ended => return ended,
            }
        }
    }

    /// Asks for all names by one request, where that is possible.
    async fn try_together(&self) -> Result<TryAll, AcquireError> {
        let asks = self.names.iter().map(Named::ask);
        let mut asks = asks.collect::<Result<Vec<_>, _>>()?;
        acquire_all(&mut asks).await
    }

    /// Acquires the names in the order of their keys, and holds the earlier ones meanwhile.
    async fn one_by_one(&self, wait: impl Fn() -> Wait) -> Result<Lease<Several>, AcquireError> {
        let mut held: Vec<(usize, Lease)> = Vec::with_capacity(self.names.len());
        for &(at, name) in &self.order {
            let named = &self.names[at];
            let acquired = tokio::select! {
                biased; // a loss counts, even when the last name is granted at the same moment
                lost = losses(&held) => {
                    let name = name.clone();
                    Err(AcquireError::LostWhileWaiting { name, lost })
                }
                lease = Box::pin(named.wait_from(self.clock.now(), wait())) => lease,
            };
            match acquired {
                Ok(lease) => held.push((at, lease)),
                Err(error) => {
                    give_back(held, &error).await;
                    return Err(error);
                }
            }
        }
        held.sort_by_key(|(at, _)| *at);
        let leases = held.into_iter().map(|(_, lease)| lease).collect();
        Ok(as_one(leases, false)?)
    }
}

fn as_one(leases: Vec<Lease>, together: bool) -> Result<Lease<Several>, InvalidInput> {
    Lease::of_several(leases, together, Several).ok_or_else(no_name)
}

fn no_name() -> InvalidInput {
    InvalidInput::new("a multilock has a name")
}

/// Resolves when the first of them ends.
async fn losses(held: &[(usize, Lease)]) -> Lost {
    let mut records = held.iter().map(|(_, lease)| Arc::clone(lease.parts().1));
    match records.next() {
        Some(first) => LossWatch::new(first).and(records).await,
        None => pending().await,
    }
}

/// Releases the names that were acquired before this error.
///
/// After an error of the store that goes on in the background: the caller learns of the error first.
async fn give_back(held: Vec<(usize, Lease)>, error: &AcquireError) {
    if let AcquireError::LostWhileWaiting { .. } | AcquireError::TimedOut { .. } = error {
        let released = held.into_iter().map(|(_, lease)| lease.release());
        drop(join_all(released).await); // what was not confirmed is released in the background
    }
}

/// True if a later try may succeed. One that too few replicas have is an answer: the caller decides.
fn may_pass(error: &AcquireError) -> bool {
    error.is_transient() && !matches!(error, AcquireError::TooFewReplicas { .. })
}
