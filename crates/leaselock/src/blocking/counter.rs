//! The counter without async.

use std::time::Duration;

use leaselock_fence::{Name, Sequencer};

use super::wait::{refused_name, wait};
use crate::counter::{CounterError, UnknownChange};

/// A [`Counter`](crate::Counter) whose calls block the calling thread.
#[derive(Debug, Clone)]
#[must_use = "a counter does nothing until it is read or changed"]
pub struct Counter {
    pub(super) client: crate::Client,
    pub(super) counter: crate::Counter,
}

impl Counter {
    setting! { counter, "Counter":
        ttl(kept: Duration);
        fenced(shown: &Sequencer);
        min_replicas(count: u32, timeout: Duration);
    }

    fn about(&self) -> Name {
        let name = self.counter.name().and_then(|name| Name::new(name).ok());
        name.unwrap_or_else(refused_name)
    }

    validating!(counter, "Counter");

    waiting! { counter, "Counter":
        /// [`CounterError`]: every variant says whether the change counts.
        incr() -> Result<i64, CounterError>;
        /// [`CounterError`]: every variant says whether the change counts.
        add(value: i64) -> Result<i64, CounterError>;
        /// [`CounterError::Differs`] has the number that the counter has instead.
        compare_and_set(expected: i64, new: i64) -> Result<(), CounterError>;
        /// [`CounterError`]: the number is not known.
        get() -> Result<i64, CounterError>;
    }

    /// As [`UnknownChange::resolve`].
    ///
    /// # Errors
    /// As there.
    pub fn resolve(&self, unknown: UnknownChange) -> Result<i64, CounterError> {
        wait(&self.client, self.about(), unknown.resolve())
    }
}
