//! Why a counter was not changed, or why that is not known.

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::change::{Settled, Told};
use super::queue::ChangeQueue;
use crate::base::error::{InvalidInput, StoreError};
use crate::base::name::Name;
use crate::engine::core::Engine;

/// Why a call of a [`Counter`](crate::Counter) failed. Every variant says whether the change counts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CounterError {
    /// A name or an option is out of its range. Nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),

    /// The counter has another number than the expected one. It was not changed.
    #[error("`{name}` is {value}, and not the expected number")]
    Differs {
        /// The counter's name.
        name: Name,
        /// Its number.
        value: i64,
    },

    /// The sum needs more than 64 bits. The counter was not changed.
    #[error("`{name}` is {value}: the sum needs more than 64 bits")]
    Overflow {
        /// The counter's name.
        name: Name,
        /// Its number.
        value: i64,
    },

    /// No reply came for five seconds. The change counts once or not at all, and [`UnknownChange::resolve`] asks which.
    #[error("{0}")]
    Unknown(Box<UnknownChange>),

    /// No reply came for five minutes. The change counts once or not at all, and the store cannot tell any more.
    #[error("`{name}`: the change counts once or not at all, and it is too late to ask")]
    Forgotten {
        /// The counter's name.
        name: Name,
    },

    /// The store did not reply, or refused. The counter was not changed.
    #[error("`{name}`: {source}")]
    Store {
        /// The counter's name.
        name: Name,
        /// The store's error.
        source: StoreError,
    },
}

impl CounterError {
    /// What a task was told, as what its caller gets.
    pub(super) fn of(
        queue: &Arc<ChangeQueue>,
        engine: &Arc<Engine>,
        name: Name,
        told: Told,
    ) -> Result<i64, CounterError> {
        Err(match told {
            Told::Settled(Settled::Done(value)) => return Ok(value),
            Told::Settled(Settled::Differs(value)) => CounterError::Differs { name, value },
            Told::Settled(Settled::Overflow(value)) => CounterError::Overflow { name, value },
            Told::Refused(source) => CounterError::Store { name, source },
            Told::Forgotten => CounterError::Forgotten { name },
            Told::Unknown(source, later) => CounterError::Unknown(Box::new(UnknownChange {
                queue: Arc::clone(queue),
                engine: Arc::clone(engine),
                name,
                source,
                later,
            })),
        })
    }
}

/// A change that counts once or not at all, because its reply was lost.
///
/// The client settles it before any later change of this counter leaves, whether it is resolved or dropped.
#[must_use = "resolve it to learn whether the change counts"]
pub struct UnknownChange {
    queue: Arc<ChangeQueue>,
    engine: Arc<Engine>,
    name: Name,
    source: StoreError,
    later: oneshot::Receiver<Told>,
}

impl UnknownChange {
    /// Returns the counter's name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Returns why no reply came.
    pub fn cause(&self) -> &StoreError {
        &self.source
    }

    /// Asks the store again, and returns the counter's number behind the change, which counts once then.
    ///
    /// # Waiting
    /// Five seconds and one request timeout at most.
    ///
    /// # Cancel safety
    /// When dropped, the change is settled before a later one leaves, but no task learns how.
    ///
    /// # Errors
    /// [`CounterError::Unknown`] again while no reply comes, and [`CounterError::Forgotten`] once it is too late. Any
    /// other error says what became of the change.
    pub async fn resolve(self) -> Result<i64, CounterError> {
        let UnknownChange {
            queue,
            engine,
            name,
            later,
            ..
        } = self;
        let told = match queue.start(&engine) {
            Ok(()) => later.await.unwrap_or(Told::Forgotten),
            Err(_) => Told::Forgotten, // the thread was there when the change left
        };
        CounterError::of(&queue, &engine, name, told)
    }
}

impl fmt::Display for UnknownChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnknownChange { name, source, .. } = self;
        write!(
            f,
            "`{name}`: the change counts once or not at all: {source}"
        )
    }
}

impl fmt::Debug for UnknownChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnknownChange")
            .field("name", &self.name)
            .field("cause", &self.source)
            .finish_non_exhaustive()
    }
}
