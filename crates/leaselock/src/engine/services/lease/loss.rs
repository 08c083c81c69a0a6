//! The public future of a lease's loss.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::record::LeaseRecord;
use crate::base::debug_as;
use crate::base::error::Lost;

/// A future that resolves when its lease ends, with the reason; [`check`](LossWatch::check) tests without awaiting.
///
/// Clones are independent and `'static`: hand one to every piece of work that must stop when the lease ends. The future
/// resolves no later than the lease's deadline by this machine's clock, whether or not the network or your executor
/// runs. It also resolves when the holder itself gives the lease up
/// ([`LostReason::Released`](crate::LostReason::Released)).
///
/// That of several names resolves when the first of their leases ends, and says which.
///
/// It resolves sooner when a renewal finds the lease gone from the store. The next renewal follows after a third of the
/// time that is left. It follows at once when a connection to a server has ended, when Sentinels name another primary,
/// when slots of a cluster move, and when a server's clock jumps. A lease without renewal ends by its deadline alone.
///
/// # Cancel safety
/// Dropping it and calling [`lost`](crate::Lease::lost) again loses nothing: a loss stays.
#[must_use = "dropping it stops nothing when the lease is lost: await it beside the work, or call `check`"]
pub struct LossWatch {
    record: Arc<LeaseRecord>,
    ticket: Option<u64>,
    /// Those of the other names, if there are several.
    others: Vec<LossWatch>,
}

impl LossWatch {
    pub(crate) fn new(record: Arc<LeaseRecord>) -> Self {
        LossWatch {
            record,
            ticket: None,
            others: Vec::new(),
        }
    }

    /// Resolves for these too, whichever ends first.
    pub(crate) fn and(mut self, others: impl Iterator<Item = Arc<LeaseRecord>>) -> Self {
        self.others.extend(others.map(LossWatch::new));
        self
    }

    /// Returns true if the lease has ended. Reads the clock, so it is exact even when no other code runs.
    pub fn is_lost(&self) -> bool {
        self.check().is_err()
    }

    /// Returns `Err` with the reason once the lease has ended: for loops, with `?`.
    ///
    /// # Errors
    /// [`Lost`]: stop work on what the lease protects.
    pub fn check(&self) -> Result<(), Lost> {
        self.record.lost_by_now().map_or(Ok(()), Err)?;
        self.others.iter().try_for_each(LossWatch::check)
    }

    /// Returns the loss of its own record, or has the task woken by it.
    fn poll_record(&mut self, cx: &mut Context<'_>) -> Option<Lost> {
        let record = Arc::clone(&self.record);
        if let Some(lost) = record.lost_by_now() {
            return Some(lost);
        }
        let mut wakers = record.loss_signal.lock();
        if let Some(lost) = record.loss_signal.get() {
            return Some(lost.clone());
        }
        let ticket = *self.ticket.get_or_insert_with(|| {
            wakers.next += 1;
            wakers.next
        });
        wakers.waiting.insert(ticket, cx.waker().clone());
        None
    }

    /// Waits for at most `limit` for the lease to end; `None` when it is still held then.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let lease = client.mutex("invoices").acquire().await?;
    /// let pause = std::time::Duration::from_millis(10);
    /// if let Some(lost) = lease.lost().within(pause).await {
    ///     return Err(lost.into()); // it ended during the pause
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn within(self, limit: Duration) -> Option<Lost> {
        let (last, clock) = (self.clone(), self.record.clock.clone());
        tokio::select! {
            biased;
            lost = self => Some(lost),
            () = clock.sleep(limit) => last.check().err(),
        }
    }
}

impl Clone for LossWatch {
    fn clone(&self) -> Self {
        let others = self.others.iter().map(|other| Arc::clone(&other.record));
        LossWatch::new(Arc::clone(&self.record)).and(others)
    }
}

debug_as!(LossWatch, it => { lost: it.check().err() });

impl Future for LossWatch {
    type Output = Lost;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Lost> {
        if let Some(lost) = self.poll_record(cx) {
            return Poll::Ready(lost);
        }
        for other in &mut self.others {
            if let Some(lost) = other.poll_record(cx) {
                return Poll::Ready(lost);
            }
        }
        Poll::Pending
    }
}

impl Drop for LossWatch {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.record.loss_signal.lock().waiting.remove(&ticket);
        }
    }
}
