//! Why a counter was not changed, or why that is not known.

use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::{Fence, Name};
use tokio::sync::oneshot;

use super::calls::{ChangeEnd, ChangeReply};
use super::driver::{ChangeQueue, hear};
use crate::base::error::{ErrorFacts, HasFacts, InvalidInput, Remains, StoreError, noun_error};
use crate::base::span::span;

noun_error! {
    /// Why a call of a [`Counter`](crate::counter::Counter) failed. Every variant says whether the change counts.
    #[derive(Debug, thiserror::Error)]
    pub enum CounterError of name: "The counter's name." {
        /// The store did not reply, or refused. The counter was not changed.
        #[error("`{name}`: {source}")]
        Store,

        /// A name or an option is out of its range. Nothing was sent.
        #[error(transparent)]
        Invalid(#[from] InvalidInput),

        /// The counter has another number than the expected one. It was not changed.
        #[error("`{name}` is {theirs}, and not the expected number")]
        Mismatch {
            /// Its number.
            theirs: i64,
        },

        /// The sum needs more than 64 bits. The counter was not changed.
        #[error("`{name}` is {value}: the sum needs more than 64 bits")]
        Overflow {
            /// Its number.
            value: i64,
        },

        /// A later holder was here, so the lease has ended: stop. The counter was not changed.
        #[error("`{name}`: the fencing token is stale: the counter has seen {seen}")]
        Stale {
            /// What the later holder has shown; the same number, if the lock's store has given it to two holders.
            seen: Fence,
        },

        /// Holders of another lock change this counter, and fencing tokens of different names cannot be compared. The counter
        /// was not changed.
        #[error("`{name}`: the lock that was shown does not protect this counter: `{lock}` does")]
        OtherName {
            /// The name of the lock that protects it: that of the first holder who has changed it.
            lock: Name,
        },

        /// **The change counts**, and too few replicas have confirmed it in time: a failover may lose it.
        ///
        /// Do not repeat it. When `add(0)` succeeds later with the same option, the replicas have this change too.
        #[error(
            "`{name}` is {value}, but {confirmed} of {required} replicas confirmed it within {}{}",
            span(*timeout),
            source.as_ref().map(|source| format!(": {source}")).unwrap_or_default()
        )]
        TooFewReplicas {
            /// Its number after the change.
            value: i64,
            /// How many replicas were required.
            required: u32,
            /// How many have confirmed it.
            confirmed: u32,
            /// How long the client waited for them.
            timeout: Duration,
            /// Why the server did not say how many; `None` if it did.
            source: Option<StoreError>,
        },

        /// No reply came for five seconds. The change counts once or not at all, and [`UnknownChange::resolve`] asks which.
        #[error(transparent)]
        Unknown(Box<UnknownChange>),

        /// No reply came for five minutes. The change counts once or not at all, and this client asks no more.
        #[error("`{name}`: no reply, so it is unknown whether the change was applied (never twice); this client has stopped asking")]
        Forgotten {} leaves Change,
    }
}

impl CounterError {
    /// What a task was told, as what its caller gets.
    pub(super) fn of(queue: &Arc<ChangeQueue>, told: ChangeReply) -> Result<i64, CounterError> {
        let ChangeReply(ended, later) = told;
        let name = queue.noun.name.clone();
        Err(match (ended, later) {
            (ChangeEnd::Done(value, None), _) => return Ok(value),
            (ChangeEnd::Done(value, Some(lacking)), _) => CounterError::TooFewReplicas {
                name,
                value,
                required: lacking.asked.replicas,
                confirmed: lacking.confirmed,
                timeout: lacking.asked.within,
                source: lacking.source,
            },
            (ChangeEnd::Differs(theirs), _) => CounterError::Mismatch { name, theirs },
            (ChangeEnd::Overflow(value), _) => CounterError::Overflow { name, value },
            (ChangeEnd::Stale(seen), _) => CounterError::Stale { name, seen },
            (ChangeEnd::OtherName(lock), _) => CounterError::OtherName { name, lock },
            (ChangeEnd::Refused(source), _) => CounterError::Store { name, source },
            (ChangeEnd::Unknown(source), Some(later)) => {
                CounterError::Unknown(Box::new(UnknownChange {
                    queue: Arc::clone(queue),
                    source,
                    later,
                }))
            }
            (ChangeEnd::Unknown(_), None) | (ChangeEnd::Forgotten, _) => {
                CounterError::Forgotten { name }
            }
        })
    }
}

/// A change that counts once or not at all, because its reply was lost.
///
/// Until it is resolved or dropped, later changes of this client fail and do not count, unless the store replies again.
#[derive(Debug, thiserror::Error)]
#[error("`{}`: no reply, so it is unknown whether the change was applied (never twice): {source}", queue.noun.name)]
#[must_use = "resolve it to learn whether the change counts"]
pub struct UnknownChange {
    queue: Arc<ChangeQueue>,
    source: StoreError,
    later: oneshot::Receiver<ChangeReply>,
}

impl UnknownChange {
    /// Returns the counter's name.
    pub fn name(&self) -> &Name {
        &self.queue.noun.name
    }

    /// Returns why no reply came.
    pub fn cause(&self) -> &StoreError {
        &self.source
    }

    /// Asks the store again, and returns the counter's number behind the change, which counts once then.
    ///
    /// # Waiting
    /// Six seconds and one request timeout at most; with `min_replicas`, theirs too.
    ///
    /// # Cancel safety
    /// When dropped, the change counts once or not at all, and no task learns which.
    ///
    /// # Errors
    /// [`CounterError::Unknown`] again while no reply comes, and [`CounterError::Forgotten`] once it is too late. Any
    /// other error says what became of the change.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::counter::CounterError;
    ///
    /// let visits = client.counter("visits");
    /// let sum = match visits.add(1).await {
    ///     Err(CounterError::Unknown(change)) => change.resolve().await?, // it counts once, whenever this returns `Ok`
    ///     told => told?,
    /// };
    /// # assert_eq!(sum, 1);
    /// # Ok(()) }
    /// ```
    pub async fn resolve(self) -> Result<i64, CounterError> {
        let told = hear(&self.queue, None, self.later).await;
        CounterError::of(&self.queue, told)
    }
}

impl HasFacts for UnknownChange {
    fn facts(&self) -> ErrorFacts<'_> {
        ErrorFacts::of_store(self.name(), &self.source).leaves(Remains::Change)
    }
}
