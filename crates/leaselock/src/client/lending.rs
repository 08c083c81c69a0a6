//! Lending: another process uses a lease for a while, and can extend but not release it.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::{Fence, Name};

use super::lease_handle::Handle;
use crate::base::clock::Moment;
use crate::base::error::{ExtendError, InvalidInput, Lost, LostReason, StoreError};
use crate::base::ttl::Ttl;
use crate::engine::guard::lease::{Lease, PassOn};
use crate::engine::services::core::Engine;
use crate::engine::services::lease::deadlines::Id;
use crate::engine::services::lease::record::LeaseRecord;
use crate::engine::services::lease::state::LeaseMachine;
use crate::engine::values::calls::Extend;
use crate::engine::values::grant::ExtendAnswer;
use crate::engine::values::kind::Kind;

const VERSION: &str = "lent";

/// Everything that another process needs to borrow a lease.
///
/// **A secret**: its bearer can keep the lease, so pass it by file, pipe or environment and not on a command line.
/// [`FromStr`] reads back the line of text that [`to_secret_string`](LentHandle::to_secret_string) returns.
#[derive(Clone, PartialEq, Eq)]
#[must_use = "dropping it lends nothing: another process borrows the lease with the text of this handle"]
pub struct LentHandle {
    handle: Handle,
    ttl: Ttl,
}

impl Lease {
    /// Lends the lease: another process can borrow it, and then extend it, but not release it.
    ///
    /// A lease of any kind can be lent, that of a reader or of a holder of permits too.
    /// Nothing is sent. **The lender must outlive the borrower**: after the lender's release another client may be
    /// granted, and the borrower learns that by its next renewal. A handle may be borrowed several times, and a borrowed
    /// lease can be lent on.
    ///
    /// # Errors
    /// [`ExtendError::Lost`] when the lease is gone; [`ExtendError::Invalid`] for a lease of another library's protocol.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (client, other) = (leaselock::Client::open("mem:lent")?, leaselock::Client::open("mem:lent")?);
    /// let lease = client.mutex("invoices").acquire().await?;
    /// let handle = lease.lend()?;
    /// let borrowed = other.borrow(handle).await?; // in the other process
    /// assert_eq!(borrowed.fence(), lease.fence());
    /// drop(borrowed); // the lease stays held
    /// lease.release().await?;
    /// # Ok(()) }
    /// ```
    pub fn lend(&self) -> Result<LentHandle, ExtendError> {
        let why = "its handle would not say how to extend it";
        self.can_be("lent", |_| Some(why))?;
        let (_, record, _) = self.parts();
        if let Some(lost) = record.lost_by_now() {
            return Err(lost.into());
        }
        let token = record.token.clone();
        Ok(LentHandle {
            handle: Handle::new(record.name.clone(), token, record.fence, &record.resource),
            ttl: record.ttl(),
        })
    }
}

/// Borrows a lease of one of these kinds.
pub(crate) async fn borrow(
    engine: &Arc<Engine>,
    kinds: &[&'static Kind],
    lent: LentHandle,
) -> Result<BorrowedLease, ExtendError> {
    let LentHandle { handle, ttl } = lent;
    let resource = handle.resource(engine, kinds)?;
    engine.check_strict(ttl)?;
    engine.store.check_limits(0, ttl.as_duration())?;
    let store = |source: StoreError| ExtendError::from_store(handle.name(), source);
    let background = engine.background().map_err(store)?;
    let extend = Extend {
        resource: &resource,
        token: handle.token(),
        ttl,
    };
    let t0 = engine.clock.now();
    let answer = engine.ask(&extend, engine.request_timeout(ttl)).await;
    let now = engine.clock.now();
    let deadline = engine.drift.deadline(t0, ttl);
    let lost = |reason| Err(Lost::new(handle.name().clone(), handle.fence(), reason).into());
    match answer.map_err(store)? {
        ExtendAnswer::Extended { .. } if now < deadline => {}
        ExtendAnswer::Extended { .. } => return lost(LostReason::Expired),
        ExtendAnswer::Expired => return lost(LostReason::KeyMissing),
        ExtendAnswer::Taken => return lost(LostReason::TakenOver),
    }
    engine.store.limit_session(Moment::from_nanos(u64::MAX));
    let record = LeaseRecord::new(
        handle.name().clone(),
        resource.clone(),
        handle.token().clone(),
        handle.fence(),
        None,
        engine.clock.clone(),
        LeaseMachine::granted(t0, deadline, now, ttl, engine.drift, true, None),
    );
    let record = Arc::new(record);
    let id = background.renewal.add(Arc::clone(&record));
    let lease = Lease::new(Arc::clone(engine), record, id);
    Ok(BorrowedLease(lease.shared(Arc::new(StaysWithTheLender))))
}

/// A lease that another process has lent. It is renewed; dropping it ends the renewal and releases nothing.
///
/// It has the methods of [`Lease`], to which it dereferences, except those that end one. It is
/// [lost](Lease::lost) at its own deadline, or at the first renewal after the lender has let go.
#[derive(Debug)]
#[must_use = "a borrowed lease that is dropped is not renewed any more"]
pub struct BorrowedLease(Lease);

impl Deref for BorrowedLease {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0
    }
}

/// The end of a borrowed lease sends nothing.
struct StaysWithTheLender;

impl PassOn for StaysWithTheLender {
    fn pass_on(self: Arc<Self>, engine: &Arc<Engine>, record: &Arc<LeaseRecord>, id: Id) -> bool {
        engine.stop_renewal(id);
        record.end(LostReason::Released);
        true
    }

    fn end_of(self: Arc<Self>, _: &Arc<LeaseRecord>) {}
}

impl LentHandle {
    /// Returns the lock's name.
    pub fn name(&self) -> &Name {
        self.handle.name()
    }

    /// Returns the fencing token of the lease.
    pub fn fence(&self) -> Option<Fence> {
        self.handle.fence()
    }

    /// Returns what is locked, as [`Handle::kind`] does.
    pub fn kind(&self) -> &str {
        self.handle.kind()
    }

    /// Returns one line of text, `lent.…`, that [`FromStr`] reads back.
    pub fn to_secret_string(&self) -> String {
        format!(
            "{VERSION}.{}.{}",
            self.handle.to_secret_string(),
            self.ttl.as_ms()
        )
    }
}

impl FromStr for LentHandle {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        parse(text.trim()).ok_or_else(|| {
            let says = "this is not the handle of a lent lease; one is the line that begins with `lent.`, as `lend` made it";
            InvalidInput::new(says)
        })
    }
}

fn parse(text: &str) -> Option<LentHandle> {
    let (version, rest) = text.split_once('.')?;
    let (handle, ttl) = rest.rsplit_once('.')?;
    let lent = LentHandle {
        handle: handle.parse().ok()?,
        ttl: Ttl::new(Duration::from_millis(ttl.parse().ok()?)).ok()?,
    };
    (version == VERSION).then_some(lent)
}

impl fmt::Debug for LentHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LentHandle")
            .field("handle", &self.handle)
            .field("ttl", &self.ttl)
            .finish()
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use super::*;
    use crate::client::Client;

    #[tokio::test]
    async fn the_handle_of_a_lent_lease_survives_the_way_through_text_and_debug_does_not_show_it() {
        let client = Client::open("mem:").unwrap();
        let mutex = client.mutex("jobs/α.1").acquire().await.unwrap();
        let read = client.rwlock("config").read().await.unwrap();
        let permits = client.semaphore("pool", 3).acquire_many(2).await.unwrap();
        for handle in [mutex.lend(), read.lend(), permits.lend()].map(Result::unwrap) {
            let text = format!(" {}\n", handle.to_secret_string());
            assert_eq!(text.parse::<LentHandle>().unwrap(), handle);
            assert!(!format!("{handle:?}").contains(handle.handle.token().secret()));
            let refusal = text.replace("lent.", "").parse::<LentHandle>().unwrap_err();
            assert!(refusal.to_string().contains("`lent.`"));
            let refusal = text.parse::<Handle>().unwrap_err().to_string();
            assert!(
                refusal.contains("`ll1.`"),
                "it is no handle that can release"
            );
        }
    }
}
