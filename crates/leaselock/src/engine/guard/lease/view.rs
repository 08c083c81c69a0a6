//! A lease as tasks other than its owner see it.

use std::sync::Arc;

use tokio::time::timeout;

use super::mode::Typed;
use crate::base::error::LostReason;
use crate::engine::services::LeaseRecord;
use crate::engine::services::log::BREAKER_WITHIN;
use crate::engine::values::{LockMode, LogEntry};

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
    pub(super) record: Arc<LeaseRecord>,
    /// Those of the other names, if there are several.
    others: Vec<Arc<LeaseRecord>>,
    pub(super) mode: M,
}

impl LeaseView {
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

    pub(super) fn others(&self) -> impl Iterator<Item = &Arc<LeaseRecord>> {
        self.others.iter()
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
}

/// Forgets the kind. The name and the fencing token are those of the first name then, all else is of all names.
impl<M: Typed> From<LeaseView<M>> for LeaseView {
    fn from(view: LeaseView<M>) -> Self {
        LeaseView::new(view.record, view.others, ())
    }
}
