//! The questions that every operation's error answers.

use std::time::Duration;

use leaselock_fence::{InvalidInput, Name};

use super::lost::Lost;
use super::store::StoreError;

/// The error of an operation: what a caller asks of it before it decides what to do next.
///
/// # Examples
/// ```
/// use leaselock::{Client, OperationError};
///
/// /// Whether the same call may succeed later without an operator.
/// fn is_worth_a_retry(error: &impl OperationError) -> bool {
///     error.is_transient()
/// }
///
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (client, other) = (Client::open("mem:invoices")?, Client::open("mem:invoices")?);
/// let lease = client.mutex("invoices").acquire().await?;
/// let error = other.mutex("invoices").wait(leaselock::Wait::Never).acquire().await.unwrap_err();
/// assert!(error.is_busy() && is_worth_a_retry(&error));
/// assert_eq!(error.lock_name().map(|name| name.as_str()), Some("invoices"));
/// assert!(error.remains().is_none()); // this call left nothing on the store
/// # lease.release().await?;
/// # Ok(()) }
/// ```
#[expect(
    private_bounds,
    reason = "it is implemented for this crate's errors alone"
)]
pub trait OperationError: std::error::Error + HasFacts {
    /// Returns the name that the operation was about; `None` when the name itself was refused.
    fn lock_name(&self) -> Option<&Name> {
        self.facts().name
    }

    /// Returns true if the store replied that others hold it, or that the rate is used up.
    fn is_busy(&self) -> bool {
        self.facts().is_busy
    }

    /// Returns true if the caller's limit was over: its time, or its one try.
    fn is_timeout(&self) -> bool {
        self.facts().is_timeout
    }

    /// Returns true if the same call may succeed later without an operator.
    fn is_transient(&self) -> bool {
        let facts = self.facts();
        facts.is_busy || facts.may_pass || facts.store.is_some_and(StoreError::is_transient)
    }

    /// Returns true if this store cannot do it, as a semaphore on a majority of servers.
    fn is_unsupported(&self) -> bool {
        let facts = self.facts();
        let reason = facts.invalid.and_then(InvalidInput::unsupported);
        let kind = facts.store.map(StoreError::kind);
        reason.is_some() || kind == Some(super::store::ErrorKind::Unsupported)
    }

    /// Returns what the store said, when that is why it failed.
    fn store_error(&self) -> Option<&StoreError> {
        self.facts().store
    }

    /// Returns what this call may have left on the store; `None` when it left nothing.
    fn remains(&self) -> Option<Remains> {
        self.facts().remains
    }
}

/// What a call that failed may have left on the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Remains {
    /// A lease that no client acts on. The client releases it in the background.
    #[non_exhaustive]
    Lease {
        /// After this long the store holds nothing of it; `None`: after its ttl.
        at_most: Option<Duration>,
    },
    /// Votes of single servers of a majority. The client takes them back in the background.
    #[non_exhaustive]
    Votes {
        /// After this long no server holds anything of it.
        at_most: Duration,
    },
    /// Permits of a limiter that count as used.
    Permits,
    /// A party that counts: to arrive again counts it once, and a barrier forgets it when its lease is over.
    Party,
    /// A record: the end of a run, or that it was cancelled or forgotten.
    Record,
    /// A change of a counter, which counts once or not at all.
    Change,
}

/// What an error knows, of which the answers are made.
#[derive(Debug, Default)]
pub(crate) struct ErrorFacts<'a> {
    pub(crate) name: Option<&'a Name>,
    pub(crate) invalid: Option<&'a InvalidInput>,
    pub(crate) store: Option<&'a StoreError>,
    pub(crate) is_busy: bool,
    pub(crate) is_timeout: bool,
    /// True if it may succeed later for another reason than the store's.
    pub(crate) may_pass: bool,
    pub(crate) remains: Option<Remains>,
}

/// Errors of this crate alone have it.
pub(crate) trait HasFacts {
    fn facts(&self) -> ErrorFacts<'_>;
}

impl<E: std::error::Error + HasFacts> OperationError for E {}

impl<'a> ErrorFacts<'a> {
    pub(crate) fn of(name: &'a Name) -> Self {
        ErrorFacts {
            name: Some(name),
            ..ErrorFacts::default()
        }
    }

    pub(crate) fn of_store(name: &'a Name, source: &'a StoreError) -> Self {
        ErrorFacts::of(name).because(source)
    }

    pub(crate) fn because(mut self, source: &'a StoreError) -> Self {
        self.store = Some(source);
        self
    }

    /// The store's error is the cause of this one, if it has such a cause.
    pub(crate) fn caused_by(mut self, error: &'a (dyn std::error::Error + 'static)) -> Self {
        self.store = error.source().and_then(|source| source.downcast_ref());
        self
    }

    pub(crate) fn leaves(mut self, remains: Remains) -> Self {
        self.remains = Some(remains);
        self
    }
}

/// For the arms of `noun_error!`.
impl ErrorFacts<'_> {
    pub(crate) fn passing<E>(mut self, _: &E) -> Self {
        self.may_pass = true;
        self
    }

    pub(crate) fn busy<E>(mut self, _: &E) -> Self {
        self.is_busy = true;
        self
    }

    /// The limit was over, and others were ahead.
    pub(crate) fn timed_out<E>(mut self, error: &E) -> Self {
        self.is_timeout = true;
        self.busy(error)
    }
}

impl HasFacts for InvalidInput {
    fn facts(&self) -> ErrorFacts<'_> {
        ErrorFacts {
            invalid: Some(self),
            ..ErrorFacts::default()
        }
    }
}

/// The lease is gone: it does not come back.
impl HasFacts for Lost {
    fn facts(&self) -> ErrorFacts<'_> {
        ErrorFacts::of(&self.name)
    }
}

impl HasFacts for StoreError {
    fn facts(&self) -> ErrorFacts<'_> {
        ErrorFacts::default().because(self)
    }
}
