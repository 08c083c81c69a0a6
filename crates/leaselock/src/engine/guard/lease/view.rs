//! A lease as tasks other than its owner see it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::{Name, Sequencer};
use tokio::time::timeout;

use super::mode::{Granted, Mode, SingleName};
use crate::base::clock::Moment;
use crate::base::error::{Lost, LostReason, StoreError};
use crate::engine::services::lease::loss::LossWatch;
use crate::engine::services::lease::record::LeaseRecord;
use crate::engine::services::log::BREAKER_WITHIN;
use crate::engine::values::lock_mode::LockMode;
use crate::engine::values::log::LogEntry;

/// Whether a lease can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseState {
    /// It is held.
    Held,
    /// It is held, but the latest renewal failed: get ready to stop.
    Suspect,
    /// It is no longer held.
    Lost(LostReason),
}

/// A read-only view of a [`Lease`](crate::Lease): it cannot extend or release. Clones are cheap and `'static`, and keep
/// no lease alive. Without a parameter it is that of a lease of any kind.
#[derive(Clone)]
pub struct LeaseView<M = ()> {
    record: Arc<LeaseRecord>,
    /// Those of the other names, if there are several.
    others: Vec<Arc<LeaseRecord>>,
    mode: M,
}

impl LeaseView {
    /// Creates the view of the lease with this record.
    pub(crate) fn of(record: Arc<LeaseRecord>) -> Self {
        LeaseView::new(record, Vec::new(), ())
    }

    /// Returns how the name is held.
    pub fn mode(&self) -> LockMode {
        LockMode::of(&self.record.resource)
    }
}

impl<M> LeaseView<M> {
    pub(super) fn new(record: Arc<LeaseRecord>, others: Vec<Arc<LeaseRecord>>, mode: M) -> Self {
        LeaseView {
            record,
            others,
            mode,
        }
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = &LeaseRecord> + Clone {
        let others = self.others.iter().map(|record| &**record);
        std::iter::once(&*self.record).chain(others)
    }

    /// Returns what the mode knows of the lease.
    pub(crate) fn known(&self) -> &M {
        &self.mode
    }

    /// Returns until when the holder may act, unless the lease is extended.
    pub fn deadline(&self) -> Moment {
        deadline(self.records())
    }

    /// Returns whether the lease is held, suspect or lost.
    pub fn state(&self) -> LeaseState {
        state(self.records())
    }

    /// Returns how long the holder may still act, unless the lease is extended; zero when it is lost.
    pub fn remaining(&self) -> Duration {
        remaining(self.records())
    }

    /// Returns true if the holder may act now.
    pub fn is_held(&self) -> bool {
        lost_by_now(self.records()).is_none()
    }

    /// Returns the ttl that each renewal asks for.
    pub fn ttl(&self) -> Duration {
        self.record.ttl().as_duration()
    }

    /// Returns the error of the latest renewal, as [`Lease::last_error`](crate::Lease::last_error) does.
    pub fn last_error(&self) -> Option<StoreError> {
        last_error(self.records())
    }

    /// Returns how long ago the store last confirmed the lease.
    pub fn unconfirmed_for(&self) -> Duration {
        unconfirmed_for(self.records())
    }

    /// Returns a future that resolves when the lease ends. See [`LossWatch`].
    pub fn lost(&self) -> LossWatch {
        LossWatch::new(Arc::clone(&self.record)).and(self.others.iter().cloned())
    }

    /// Waits for the end of the lease, and returns the entry of the event log in which an operator says why it was broken.
    ///
    /// For what is told to people, after the work has stopped: it asks the store once the lease has ended
    /// ([`LostReason::Broken`], [`LostReason::KeyMissing`] or [`LostReason::TakenOver`]), by the lease's name and fencing
    /// token. `None` after any other end, when no entry is found, and when the client is gone.
    ///
    /// # Waiting
    /// As [`lost`](LeaseView::lost), and for half a second after that at most.
    ///
    /// # Cancel safety
    /// Safe: the call only reads.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::inspect::BreakOptions;
    ///
    /// let lease = client.mutex("invoices").acquire().await?;
    /// # let options = BreakOptions::default().now().because("stuck since 3").by("alice@office");
    /// # client.break_lease("invoices", options).await?;
    /// let view = lease.view();
    /// let lost = view.lost().await; // stop the work now, and ask then
    /// if let Some(entry) = view.broken_by().await {
    ///     println!("{lost}: {entry}"); // … broken by alice@office: stuck since 3
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn broken_by(&self) -> Option<LogEntry> {
        self.lost().await;
        let found = async {
            for record in self.records() {
                if let Some(entry) = record.broken_by().await {
                    return Some(entry);
                }
            }
            None
        };
        let found = timeout(BREAKER_WITHIN, Box::pin(found)).await;
        found.unwrap_or_default()
    }

    /// Returns `Err` with the reason once the lease has ended: between two steps of work, with `?`.
    ///
    /// # Errors
    /// [`Lost`]: stop work on what the lease protects.
    pub fn check(&self) -> Result<(), Lost> {
        lost_by_now(self.records()).map_or(Ok(()), Err)
    }
}

impl<M: SingleName> LeaseView<M> {
    /// Returns the name that the lease protects.
    pub fn name(&self) -> &Name {
        &self.record.name
    }

    /// Returns the fencing token, as [`Lease::fence`](crate::Lease::fence) does.
    pub fn fence(&self) -> M::Fence {
        M::Fence::of(self.record.fence)
    }

    /// Returns what the holder shows to the resource that the lease protects; `None` without fencing.
    pub fn sequencer(&self) -> Option<Sequencer> {
        self.record.sequencer()
    }
}

/// Forgets the kind. The name and the fencing token are those of the first name then, all else is of all names.
impl<M: Mode> From<LeaseView<M>> for LeaseView {
    fn from(view: LeaseView<M>) -> Self {
        LeaseView::new(view.record, view.others, ())
    }
}

impl<M> fmt::Debug for LeaseView<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, "LeaseView", self.records())
    }
}

/// Shows the leases of these records as one: by name, token and state.
pub(super) fn show<'a>(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    records: impl Iterator<Item = &'a LeaseRecord> + Clone,
) -> fmt::Result {
    let mut shown = f.debug_struct(what);
    for record in records.clone() {
        shown.field("name", &record.name);
        shown.field("fence", &record.fence);
    }
    shown
        .field("state", &state(records))
        .finish_non_exhaustive()
}

/// Returns the earliest deadline of all names.
pub(super) fn deadline<'a>(records: impl Iterator<Item = &'a LeaseRecord>) -> Moment {
    let deadlines = records.map(|record| record.core().deadline());
    deadlines.min().unwrap_or(Moment::from_nanos(0))
}

/// Returns how long the holder may act under all names.
pub(super) fn remaining<'a>(records: impl Iterator<Item = &'a LeaseRecord>) -> Duration {
    let left = records.map(|record| match record.lost_by_now() {
        Some(_) => Duration::ZERO,
        None => {
            let deadline = record.core().deadline();
            record.clock.left(deadline)
        }
    });
    left.min().unwrap_or_default()
}

/// Returns the error of a latest renewal, if one failed.
pub(super) fn last_error<'a>(
    mut records: impl Iterator<Item = &'a LeaseRecord>,
) -> Option<StoreError> {
    records.find_map(|record| record.core().trouble().cloned())
}

/// Returns how long ago the store last confirmed all of them.
pub(super) fn unconfirmed_for<'a>(records: impl Iterator<Item = &'a LeaseRecord>) -> Duration {
    let each = records.map(|record| {
        let now = record.clock.now();
        record.core().unconfirmed_for(now)
    });
    each.max().unwrap_or_default()
}

/// Returns the first loss, judged by the clock.
pub(super) fn lost_by_now<'a>(mut records: impl Iterator<Item = &'a LeaseRecord>) -> Option<Lost> {
    records.find_map(LeaseRecord::lost_by_now)
}

/// Lost if one lease is lost, suspect if one is suspect, held otherwise.
pub(super) fn state<'a>(records: impl Iterator<Item = &'a LeaseRecord> + Clone) -> LeaseState {
    if let Some(lost) = lost_by_now(records.clone()) {
        return LeaseState::Lost(lost.reason);
    }
    let mut records = records;
    match records.any(|record| record.core().is_suspect()) {
        true => LeaseState::Suspect,
        false => LeaseState::Held,
    }
}
