//! The public future of a lease's loss.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::record::LeaseRecord;
use crate::base::error::Lost;

/// A future that resolves when its lease ends, with the reason; [`check`](LossWatch::check) tests without awaiting.
///
/// Clones are independent and `'static`: hand one to every piece of work that must stop when the lease ends. The future
/// resolves no later than the lease's deadline by this machine's clock, whether or not the network or your executor
/// runs. It also resolves when the holder itself gives the lease up
/// ([`LostReason::Released`](crate::LostReason::Released)).
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
}

impl LossWatch {
    pub(crate) fn new(record: Arc<LeaseRecord>) -> Self {
        LossWatch {
            record,
            ticket: None,
        }
    }

    /// Returns true if the lease has ended. Reads the clock, so it is exact even when no other code runs.
    pub fn is_lost(&self) -> bool {
        self.record.lost_by_now().is_some()
    }

    /// Returns `Err` with the reason once the lease has ended: for loops, with `?`.
    ///
    /// # Errors
    /// [`Lost`]: stop work on what the lease protects.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// # let lease = client.mutex("invoices").acquire().await?;
    /// # fn settle(_: u32) {}
    /// let lost = lease.lost();
    /// for invoice in 1..=100 {
    ///     lost.check()?; // stop between two invoices when the lease is gone
    ///     settle(invoice);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn check(&self) -> Result<(), Lost> {
        self.record.lost_by_now().map_or(Ok(()), Err)
    }
}

impl LossWatch {
    /// Waits for at most `limit` for the lease to end; `None` when it is still held then.
    ///
    /// # Cancel safety
    /// Safe: the call only waits.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// # let lease = client.mutex("invoices").acquire().await?;
    /// let lost = lease.lost().within(std::time::Duration::from_millis(10)).await;
    /// assert_eq!(lost, None); // it is held
    /// # Ok(()) }
    /// ```
    pub async fn within(self, limit: Duration) -> Option<Lost> {
        let record = Arc::clone(&self.record);
        tokio::select! {
            biased;
            lost = self => Some(lost),
            () = record.clock.sleep(limit) => record.lost_by_now(),
        }
    }
}

impl Clone for LossWatch {
    fn clone(&self) -> Self {
        LossWatch::new(Arc::clone(&self.record))
    }
}

impl fmt::Debug for LossWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LossWatch")
            .field("lost", &self.record.loss_signal.get())
            .finish_non_exhaustive()
    }
}

impl Future for LossWatch {
    type Output = Lost;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Lost> {
        if let Some(lost) = self.record.lost_by_now() {
            return Poll::Ready(lost);
        }
        let record = Arc::clone(&self.record);
        let mut wakers = record.loss_signal.lock();
        if let Some(lost) = record.loss_signal.get() {
            return Poll::Ready(lost.clone());
        }
        let ticket = *self.ticket.get_or_insert_with(|| {
            wakers.next += 1;
            wakers.next
        });
        wakers.waiting.insert(ticket, cx.waker().clone());
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
