//! The lease: the right to hold a name for a bounded time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::{Fence, Name};

use super::pass_on::PassOn;
use super::release::release_record;
use super::view::{LeaseState, LeaseView};
use crate::base::clock::Moment;
use crate::base::error::{ExtendError, InvalidInput, Lost, LostReason, ReleaseError, StoreError};
use crate::base::ttl::Ttl;
use crate::engine::services::cleanup::PendingCleanup;
use crate::engine::services::cleanup::guard::CleanupGuard;
use crate::engine::services::core::Engine;
use crate::engine::services::lease::deadlines::Id;
use crate::engine::services::lease::loss::LossWatch;
use crate::engine::services::lease::record::LeaseRecord;
use crate::engine::values::calls::Extend;
use crate::engine::values::custom::CustomLock;
use crate::engine::values::grant::ExtendAnswer;

/// A lease that is held, until its deadline at least; the client renews it in the background unless that is off.
///
/// **Dropping a lease releases it soon, not now**: the release runs in the background, on the client's own thread, also
/// outside a runtime and during a panic. Call [`release`](Lease::release) when the result of the release matters.
///
/// A lease stops you, the caller. It cannot stop a write that is already in flight, nor a process that froze between
/// its check and its write; only the protected resource can, by checking [`fence`](Lease::fence).
#[must_use = "dropping a lease gives it up"]
#[clippy::has_significant_drop]
pub struct Lease {
    engine: Arc<Engine>,
    record: Arc<LeaseRecord>,
    id: Id,
    given_up: bool,
    /// True if a request of the acquisition was cut off, so that the server may run it after the end of the lease.
    late_requests: bool,
    /// How many tries after the first the acquisition took.
    retries: u32,
    /// Who gets it next without a request.
    passes_to: Option<Arc<dyn PassOn>>,
}

impl Lease {
    pub(crate) fn new(engine: Arc<Engine>, record: Arc<LeaseRecord>, id: Id) -> Self {
        Lease {
            engine,
            record,
            id,
            given_up: false,
            late_requests: false,
            retries: 0,
            passes_to: None,
        }
    }

    /// Sets how many tries after the first the acquisition took.
    pub(crate) fn after(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Passes the lease on to these when its holder releases it.
    pub(crate) fn shared(mut self, passes_to: Arc<dyn PassOn>) -> Self {
        self.passes_to = Some(passes_to);
        self
    }

    /// Returns what a local group remembers of the lease that it hands from task to task.
    pub(crate) fn parts(&self) -> (&Arc<Engine>, &Arc<LeaseRecord>, Id) {
        (&self.engine, &self.record, self.id)
    }

    /// Returns who gets it next without a request.
    pub(super) fn passes_to(&mut self) -> &mut Option<Arc<dyn PassOn>> {
        &mut self.passes_to
    }

    /// Drops this value without an effect: its parts were given to another owner.
    pub(crate) fn disown(mut self) {
        self.passes_to = None;
        self.given_up = true;
    }

    /// Returns true if the server may still run a request of the acquisition.
    pub(crate) fn expects_late_requests(&self) -> bool {
        self.late_requests
    }

    /// Marks the lease as taken by the task that it was handed to.
    pub(crate) fn take_up(&self) {
        let now = self.engine.clock.now();
        if self.record.core().take_up(now) {
            self.engine.check_now(self.id);
        }
    }

    /// Passes the lease on within this client, if it may. Sends no request.
    fn pass_on(&mut self) -> bool {
        let Some(passes_to) = self.passes_to.take() else {
            return false;
        };
        self.given_up = passes_to.pass_on(&self.engine, &self.record, self.id);
        self.given_up
    }

    /// Marks the lease for a cleanup after its end, even if the release succeeds.
    pub(crate) fn expect_late_requests(&mut self) {
        self.late_requests = true;
    }

    /// Notes that the acquisition waited in the queue.
    pub(crate) fn set_queued(&self) {
        self.record.set_queued();
    }

    /// Returns the name that the lease protects.
    pub fn name(&self) -> &Name {
        &self.record.name
    }

    /// Returns the fencing token, which stays the same for the whole life of the lease; `None` without fencing.
    pub fn fence(&self) -> Option<Fence> {
        self.record.fence
    }

    /// Returns how many tries after the first the acquisition took, with [`Wait::Poll`](crate::Wait::Poll).
    ///
    /// More than 0 means that other clients held the lock, or that the store did not reply. A waiter in the queue makes
    /// no tries, so its lease returns 0.
    pub fn retries(&self) -> u32 {
        self.retries
    }

    /// Returns the ttl that each renewal asks for.
    pub fn ttl(&self) -> Duration {
        self.record.ttl().as_duration()
    }

    /// Returns until when you may act unless it is extended: counted from before the request was sent, less drift.
    ///
    /// Until its first renewal, a lease that was handed over lasts at most 5 s.
    pub fn deadline(&self) -> Moment {
        self.record.core().deadline()
    }

    /// Returns how long you may still act, unless the lease is extended; zero when it is lost.
    pub fn remaining(&self) -> Duration {
        self.view().remaining()
    }

    /// Returns true if you may act now. Reads the clock, so it is exact even when no other code has run.
    pub fn is_held(&self) -> bool {
        self.record.lost_by_now().is_none()
    }

    /// Returns whether the lease is held, suspect or lost.
    pub fn state(&self) -> LeaseState {
        self.view().state()
    }

    /// Returns the error of the latest renewal, while the state is [`Suspect`](LeaseState::Suspect) and afterwards.
    ///
    /// `None` when the latest renewal was confirmed, and before the first one has ended. The error names the server,
    /// without its password.
    pub fn last_error(&self) -> Option<StoreError> {
        self.record.core().trouble().cloned()
    }

    /// Returns how long ago the store last confirmed the lease: by the grant, or by the latest renewal with a reply.
    pub fn unconfirmed_for(&self) -> Duration {
        let now = self.engine.clock.now();
        self.record.core().unconfirmed_for(now)
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
        LossWatch::new(Arc::clone(&self.record))
    }

    /// Returns `Err` with the reason once the lease has ended: between two steps of work, with `?`.
    ///
    /// # Errors
    /// [`Lost`]: stop work on what the lease protects.
    pub fn check(&self) -> Result<(), Lost> {
        self.lost().check()
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
    pub fn view(&self) -> LeaseView {
        LeaseView::new(Arc::clone(&self.record))
    }

    /// Calls `hook` with the present deadline at once, and with each new one on the client's own thread.
    ///
    /// The hook must not block. It is meant for a process that stops the work at the deadline when this one cannot.
    pub fn on_deadline(&self, hook: impl Fn(Moment) + Send + Sync + 'static) {
        self.record.add_hook(Arc::new(hook));
    }

    /// Extends the lease to `ttl` from now. Later renewals use the same `ttl`.
    ///
    /// It never shortens the present deadline, and never revives a lost lease.
    ///
    /// # Waiting
    /// One request, within the request timeout.
    ///
    /// # Cancel safety
    /// When dropped, the extension may have happened; the lease is held until its old deadline at least.
    ///
    /// # Errors
    /// [`ExtendError`]: every variant says what it means for the lease.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// # let lease = client.mutex("invoices").acquire().await?;
    /// lease.extend(std::time::Duration::from_secs(60)).await?; // before a step that takes long
    /// # Ok(()) }
    /// ```
    pub async fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        let ttl = Ttl::new(ttl)?;
        self.engine.check_strict(ttl)?;
        self.engine.store.check_limits(0, ttl.as_duration())?;
        self.can_be("extended", |custom| custom.why_no_renewal())?;
        if let Some(lost) = self.record.lost_by_now() {
            return Err(lost.into());
        }
        let t0 = self.engine.clock.now();
        let extend = Extend {
            resource: &self.record.resource,
            token: &self.record.token,
            ttl,
        };
        let within = self.engine.request_timeout(ttl);
        let answer = match &self.record.custom {
            Some(custom) => custom.extend(&self.engine.store, ttl, within).await,
            None => self.engine.ask(&extend, within).await,
        };
        match answer {
            Ok(ExtendAnswer::Extended { .. }) => {
                let now = self.engine.clock.now();
                self.record.core().extended(t0, now, ttl);
                let next = self.passes_to.as_ref();
                let renewed = next.map_or(ttl, |next| next.renewal_ttl(ttl));
                self.record.core().set_ttl(renewed);
                self.record.tell_hook();
                self.engine.check_now(self.id);
                self.record
                    .lost_by_now()
                    .map_or(Ok(()), |lost| Err(lost.into()))
            }
            Ok(ExtendAnswer::Expired) => Err(self.end(LostReason::KeyMissing).into()),
            Ok(ExtendAnswer::Taken) => Err(self.end(LostReason::TakenOver).into()),
            Err(source) => Err(ExtendError::from_store(&self.record.name, source)),
        }
    }

    /// Refuses what the lease's protocol cannot do.
    pub(crate) fn can_be(
        &self,
        what: &str,
        why_not: impl Fn(&dyn CustomLock) -> Option<&'static str>,
    ) -> Result<(), InvalidInput> {
        let custom = self.record.custom.as_deref();
        match custom.and_then(|custom| Some((custom.protocol(), why_not(custom)?))) {
            None => Ok(()),
            Some((protocol, why)) => Err(InvalidInput::new(format!(
                "a lease of the protocol {protocol} cannot be {what}: {why}"
            ))),
        }
    }

    pub(crate) fn end(&self, reason: LostReason) -> Lost {
        self.record.end(reason);
        self.engine.check_now(self.id);
        self.record
            .lost_by_now()
            .unwrap_or_else(|| self.record.loss(reason))
    }

    /// Releases the lease, and returns whether it was still held.
    ///
    /// The next waiter in the queue gets it in the same step. If that is a task of this client, it may get the lease
    /// without a request; `Ok` then means that this client knew of no loss.
    ///
    /// # Waiting
    /// Within two request timeouts. If no reply arrives, the request is sent again; the same request twice does no
    /// harm.
    ///
    /// # Cancel safety
    /// When dropped, the release goes on in the background.
    ///
    /// # Errors
    /// [`ReleaseError`]: nothing is held after any of them. After `NotHeld`, other clients may have held it meanwhile.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// # let lease = client.mutex("invoices").acquire().await?;
    /// if let Err(error) = lease.release().await {
    ///     println!("another client may have held the lock meanwhile: {error}");
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn release(mut self) -> Result<(), ReleaseError> {
        if self.pass_on() {
            return Ok(());
        }
        let left = self.remaining();
        let guard = self.give_up();
        let (engine, record) = (Arc::clone(&self.engine), Arc::clone(&self.record));
        let within = engine.request_timeout(record.ttl());
        let outcome = release_record(&engine, &record, left, within).await;
        let known = matches!(outcome, Ok(()) | Err(ReleaseError::NotHeld { .. }));
        if known && !self.late_requests {
            guard.end();
        }
        self.engine.erase_note(&record);
        outcome
    }

    /// True if others hold it too: the other guards of its owner.
    pub(crate) fn is_shared(&self) -> bool {
        self.passes_to.as_ref().is_some_and(|next| next.is_shared())
    }

    /// No one gets the lease next.
    pub(crate) fn end_passing(&mut self) {
        if let Some(passes_to) = self.passes_to.take() {
            passes_to.end_of(&self.record);
        }
    }

    /// Stops renewal, so that no renewal follows the release. From here on a cleanup is due.
    pub(crate) fn give_up(&mut self) -> CleanupGuard {
        self.given_up = true;
        self.engine.stop_renewal(self.id);
        let until = self.record.core().deadline();
        self.record.end(LostReason::Released);
        let custom = self.record.custom.clone();
        let (resource, token) = (self.record.resource.clone(), self.record.token.clone());
        let pending = if self.late_requests {
            PendingCleanup::acquisition(resource, token, until)
        } else {
            PendingCleanup::release(resource, token, until)
        };
        let pending = pending.queued(self.record.was_queued());
        CleanupGuard::new(self.engine.cleanup(), pending.with_custom(custom))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.given_up && !self.pass_on() {
            drop(self.give_up());
            self.engine.erase_note(&self.record);
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("name", &self.record.name)
            .field("fence", &self.record.fence)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
