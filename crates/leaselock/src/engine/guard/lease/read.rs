//! What a lease tells its holder, and a view of it other tasks.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use leaselock_fence::{Name, Sequencer};
use tokio::time::timeout;

use super::handle::{Granted, Lease, SingleName, Typed};
use crate::base::error::{Lost, LostReason};
use crate::base::{Moment, StoreError};
use crate::engine::services::log::BREAKER_WITHIN;
use crate::engine::services::{LeaseRecord, LossWatch};
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

/// A read-only view of a [`Lease`]: it cannot extend or release. Clones are cheap and `'static`, and keep
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
        LockMode::of(&self.record.held.resource)
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

/// Gives what has the records of a lease all that it tells. Of several names it is about all of them.
macro_rules! reads {
    ($($Of:ident)*) => {$(
        impl<M: SingleName> $Of<M> {
            /// Returns the name that the lease protects.
            pub fn name(&self) -> &Name {
                &self.record.name
            }

            /// Returns the fencing token, which stays the same for the whole life of the lease.
            ///
            /// An `Option`, `None` without fencing; for a leader and for a run, which always have one, the
            /// [`Fence`](crate::Fence) itself. Where the resource can keep a text, hand over the
            /// [`sequencer`](Lease::sequencer): it says whose number it is.
            pub fn fence(&self) -> M::Fence {
                M::Fence::of(self.record.fence)
            }

            /// Returns what the holder shows to the resource that the lease protects, which refuses it when it is late.
            ///
            /// `None` without fencing. It stays the same for the whole life of the lease. The fence checkers of the crate
            /// [`leaselock-fence`](leaselock_fence) admit it or refuse it.
            ///
            /// # Examples
            /// ```
            /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let client = leaselock::Client::open("mem:")?;
            /// let lease = client.mutex("invoices").acquire().await?;
            /// let shown = lease.sequencer().ok_or("fencing is on")?;
            /// println!("Leaselock-Sequencer: {shown}"); // a header of each request to the service that keeps the invoices
            /// # Ok(()) }
            /// ```
            pub fn sequencer(&self) -> Option<Sequencer> {
                self.record.sequencer()
            }
        }

        impl<M> $Of<M> {
            /// Returns what the mode knows of the lease.
            pub(crate) fn known(&self) -> &M {
                &self.mode
            }

            pub(crate) fn records(&self) -> impl Iterator<Item = &LeaseRecord> {
                let others = self.others().map(|record| &**record);
                std::iter::once(&*self.record).chain(others)
            }

            /// Returns the first loss, judged by the clock.
            fn lost_by_now(&self) -> Option<Lost> {
                self.records().find_map(LeaseRecord::lost_by_now)
            }

            /// Returns the ttl that each renewal asks for.
            pub fn ttl(&self) -> Duration {
                self.record.ttl().as_duration()
            }

            /// Returns until when the holder may act unless it is extended: counted from before the request was sent,
            /// less drift. Of several names, the earliest.
            ///
            /// Until its first renewal, a lease that was handed over lasts at most 5 s.
            pub fn deadline(&self) -> Moment {
                let deadlines = self.records().map(|record| record.core().deadline());
                deadlines.min().unwrap_or(Moment::from_nanos(0))
            }

            /// Returns how long the holder may still act, unless the lease is extended; zero when it is lost. Of several names,
            /// the shortest.
            ///
            /// # Examples
            /// ```
            /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let client = leaselock::Client::open("mem:")?;
            /// let lease = client.mutex("invoices").acquire().await?;
            /// if lease.remaining() < std::time::Duration::from_secs(1) {
            ///     return Ok(()); // too little for the next step
            /// }
            /// # Ok(()) }
            /// ```
            pub fn remaining(&self) -> Duration {
                let left = self.records().map(LeaseRecord::remaining);
                left.min().unwrap_or_default()
            }

            /// Returns true if the holder may act now. Reads the clock, so it is exact even when no other code has run.
            pub fn is_held(&self) -> bool {
                self.lost_by_now().is_none()
            }

            /// Returns whether the lease is held, suspect or lost: lost if that of one name is, suspect if one is suspect.
            pub fn state(&self) -> LeaseState {
                if let Some(lost) = self.lost_by_now() {
                    return LeaseState::Lost(lost.reason);
                }
                match self.records().any(|record| record.core().is_suspect()) {
                    true => LeaseState::Suspect,
                    false => LeaseState::Held,
                }
            }

            /// Returns the error of the latest renewal, while the state is [`Suspect`](LeaseState::Suspect) and afterwards.
            ///
            /// `None` when the latest renewal was confirmed, and before the first one has ended. The error names the
            /// server, without its password.
            pub fn last_error(&self) -> Option<StoreError> {
                self.records().find_map(|record| record.core().trouble().cloned())
            }

            /// Returns how long ago the store last confirmed the lease: by the grant, or by the latest renewal with a reply. Of
            /// several names, the longest.
            pub fn unconfirmed_for(&self) -> Duration {
                let each = self.records().map(LeaseRecord::unconfirmed_for);
                each.max().unwrap_or_default()
            }

            /// Returns a future that resolves when the lease ends. See [`LossWatch`].
            ///
            /// # Examples
            /// ```
            /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let client = leaselock::Client::open("mem:")?;
            /// # let lease = client.mutex("invoices").acquire().await?;
            /// # async fn settle_invoices() {}
            /// tokio::select! {
            ///     () = settle_invoices() => {}
            ///     lost = lease.lost() => return Err(lost.into()), // stop: the lease is gone
            /// }
            /// # Ok(()) }
            /// ```
            pub fn lost(&self) -> LossWatch {
                LossWatch::new(Arc::clone(&self.record)).and(self.others().cloned())
            }

            /// Returns the span `hold` of tracing, for work without `run`: it ends with the lease, and says how.
            ///
            /// Of several names it is that of the first. Disabled while no subscriber listens.
            ///
            /// # Examples
            /// ```
            /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let client = leaselock::Client::open("mem:")?;
            /// # async fn settle_invoices() {}
            /// use tracing::Instrument;
            ///
            /// let lease = client.mutex("invoices").acquire().await?;
            /// settle_invoices().instrument(lease.span()).await; // what it logs names lock, class and fence
            /// lease.release().await?; // the span gets `held_ms` and `outcome`
            /// # Ok(()) }
            /// ```
            pub fn span(&self) -> tracing::Span {
                self.record.span()
            }

            /// Returns `Err` with the reason once the lease has ended: between two steps of work, with `?`.
            ///
            /// # Errors
            /// [`Lost`]: stop work on what the lease protects.
            ///
            /// # Examples
            /// ```
            /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
            /// # let client = leaselock::Client::open("mem:")?;
            /// # async fn settle(_: u32) {}
            /// let lease = client.mutex("invoices").acquire().await?;
            /// for invoice in 1..4 {
            ///     lease.check()?; // between two steps
            ///     settle(invoice).await;
            /// }
            /// # Ok(()) }
            /// ```
            pub fn check(&self) -> Result<(), Lost> {
                self.lost_by_now().map_or(Ok(()), Err)
            }
        }

        /// By name, token and state.
        impl<M> fmt::Debug for $Of<M> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut shown = f.debug_struct(stringify!($Of));
                for record in self.records() {
                    shown.field("name", &record.name);
                    shown.field("fence", &record.fence);
                }
                shown.field("state", &self.state()).finish_non_exhaustive()
            }
        }
    )*};
}

reads!(Lease LeaseView);

/// Gives a lease that is held in this way, and a view of it, what both tell beyond what all leases do.
macro_rules! both_tell {
    ($mode:ty { $($methods:tt)* }) => {
        impl $crate::engine::guard::lease::Lease<$mode> { $($methods)* }
        impl $crate::engine::guard::lease::LeaseView<$mode> { $($methods)* }
    };
}
pub(crate) use both_tell;

impl<M> Lease<M> {
    /// Returns how many tries after the first the acquisition took, with [`Wait::Poll`](crate::Wait::Poll).
    ///
    /// More than 0 means that other clients held the lock, or that the store did not reply. A waiter in the queue makes
    /// no tries, so its lease returns 0.
    pub fn retries(&self) -> u32 {
        self.retries
    }

    /// Calls `call` once, on the client's own thread, when the lease ends: also by a release.
    ///
    /// The call must not block. See [`Client::block_on`](crate::Client::block_on) for an example.
    pub fn on_lost(&self, call: impl FnOnce(Lost) + Send + 'static) {
        let lost = self.lost();
        if let Some(background) = self.engine.started() {
            drop(background.handle.spawn(async move { call(lost.await) }));
        }
    }

    /// Returns a view for other tasks: it can read, but not extend or release, and does not keep the lease.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let lease = client.mutex("invoices").acquire().await?;
    /// let view = lease.view();
    /// let task = tokio::spawn(async move { view.is_held() });
    /// assert!(task.await?);
    /// lease.release().await?;
    /// # Ok(()) }
    /// ```
    pub fn view(&self) -> LeaseView<M>
    where
        M: Clone,
    {
        let (record, others) = (Arc::clone(&self.record), self.others().cloned());
        LeaseView::new(record, others.collect(), self.known().clone())
    }

    /// Calls `hook` with the present deadline at once, and with each new one on the client's own thread.
    ///
    /// The hook must not block, and a panic in it is logged. It is meant for a process that stops the work at the deadline
    /// when this one cannot.
    pub fn on_deadline(&self, hook: impl Fn(Moment) + Send + Sync + 'static) {
        if self.several.is_empty() {
            return self.record.add_hook(Arc::new(hook));
        }
        let hook = Arc::new(hook);
        // A lease stores its hook, so the hook must not keep the lease.
        let leases = self.several.iter();
        let records = leases.map(|lease| Arc::downgrade(&lease.record));
        let records: Arc<[Weak<LeaseRecord>]> = records.collect();
        for lease in &self.several {
            let (hook, records) = (Arc::clone(&hook), Arc::clone(&records));
            lease.record.add_hook(Arc::new(move |deadline| {
                let living = records.iter().filter_map(Weak::upgrade);
                let earliest = living.map(|record| record.core().deadline()).min();
                hook(earliest.unwrap_or(deadline));
            }));
        }
    }
}
