//! A lease: what its holder has, in which mode it is held, and to whom it passes within its client.

use std::sync::Arc;

use leaselock_fence::Fence;
use tracing::Span;

use crate::base::error::{Lost, LostReason};
use crate::base::{InvalidInput, Ttl};
use crate::engine::services::{CleanupGuard, CountedHold, Engine, Id, LeaseRecord, PendingCleanup};
use crate::engine::values::CustomLock;

/// A lease that is held, until its deadline at least; the client renews it in the background unless that is off.
///
/// `M` is how it is held: each [`Mode`] adds what only its leases can do. `Lease<()>`, into which all but runs convert, has
/// what every lease has.
///
/// **Dropping a lease releases it soon, not now**: the release runs in the background, on the client's own thread, also
/// outside a runtime and during a panic. Call [`release`](Lease::release) when the result of the release matters.
///
/// A lease stops you, the caller. It cannot stop a write that is already in flight, nor a process that froze between
/// its check and its write; only the protected resource can, by checking [`fence`](Lease::fence).
#[must_use = "dropping a lease gives it up"]
#[clippy::has_significant_drop]
pub struct Lease<M = Exclusive> {
    pub(super) engine: Arc<Engine>,
    pub(super) record: Arc<LeaseRecord>,
    pub(super) id: Id,
    given_up: bool,
    /// True if a request of the acquisition was cut off, so that the server may run it after the end of the lease.
    pub(super) late_requests: bool,
    /// How many tries after the first the acquisition took.
    pub(super) retries: u32,
    /// Who gets it next without a request.
    pub(super) passes_to: Option<Arc<dyn PassOn>>,
    /// Of several names: the lease of each. This one then stands for the first, and gives nothing up by itself.
    pub(super) several: Box<[Lease]>,
    /// True if one request acquired all of them, so that one request can release them.
    pub(super) together: bool,
    pub(super) mode: M,
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
            several: Box::default(),
            together: false,
            mode: Exclusive,
        }
    }
}

/// What the engine and the nouns do with it.
impl<M> Lease<M> {
    /// Goes on with the same lease as one that is held in this way.
    pub(crate) fn held_as<N>(mut self, mode: N) -> Lease<N> {
        let passes_to = self.passes_to.take();
        let given_up = std::mem::replace(&mut self.given_up, true);
        Lease {
            engine: Arc::clone(&self.engine),
            record: Arc::clone(&self.record),
            id: self.id,
            given_up,
            late_requests: self.late_requests,
            retries: self.retries,
            passes_to,
            several: std::mem::take(&mut self.several),
            together: self.together,
            mode,
        }
    }

    /// Holds the leases of several names as one; `None` without a name.
    ///
    /// `together`: one request has acquired all of them.
    pub(crate) fn of_several(leases: Vec<Lease>, together: bool, mode: M) -> Option<Self> {
        let first = leases.first()?;
        let (engine, record) = (Arc::clone(&first.engine), Arc::clone(&first.record));
        let mut all = Lease::new(engine, record, first.id);
        all.given_up = true;
        all.retries = leases.iter().map(|lease| lease.retries).max()?;
        all.several = leases.into_boxed_slice();
        all.together = together;
        Some(all.held_as(mode))
    }

    /// Returns the lease of each name, if there are several.
    pub(crate) fn each(&self) -> &[Lease] {
        &self.several
    }

    /// Returns the records of the other names, if there are several.
    pub(super) fn others(&self) -> impl Iterator<Item = &Arc<LeaseRecord>> {
        let others = self.several.iter().skip(1);
        others.map(|lease| &lease.record)
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

    /// Counts the grant, and shows it to listeners and in the span of the acquisition.
    pub(crate) fn counted(&self, span: &Span, hold: &dyn Fn(u32) -> Arc<CountedHold>) {
        span.record("fence", self.record.fence.map(Fence::get));
        self.record.count(&self.engine.log, hold);
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

    /// Marks the lease as taken by the task that it was handed to. False for one that has ended.
    pub(crate) fn take_up(&self) -> bool {
        let now = self.engine.clock.now();
        if self.record.core().take_up(now) {
            self.engine.check_now(self.id);
        }
        self.record.lost_by(now).is_none()
    }

    /// Passes the lease on within this client, if it may. Sends no request.
    pub(super) fn pass_on(&mut self) -> bool {
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
        self.record.end(reason, self.engine.clock.now());
        self.engine.check_now(self.id);
        self.record
            .lost_by_now()
            .unwrap_or_else(|| self.record.loss(reason))
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
    ///
    /// A deadline that has passed makes it a loss, whether or not the client's thread has noticed that.
    pub(crate) fn give_up(&mut self) -> CleanupGuard {
        self.given_up = true;
        self.engine.stop_renewal(self.id);
        let until = self.record.core().deadline();
        let now = self.engine.clock.now();
        drop(self.record.lost_by(now));
        self.record.end(LostReason::Released, now);
        let custom = self.record.custom.clone();
        let held = self.record.held.clone();
        let pending = if self.late_requests {
            PendingCleanup::acquisition(held, until)
        } else {
            PendingCleanup::release(held, until)
        };
        let pending = pending.queued(self.record.was_queued());
        CleanupGuard::new(self.engine.cleanup(), pending.with_custom(custom))
    }
}

/// Forgets how it is held. Of several names, the name and the fencing token are those of the first one then.
impl<M: Mode + Typed> From<Lease<M>> for Lease<()> {
    fn from(lease: Lease<M>) -> Self {
        lease.held_as(())
    }
}

impl<M> Drop for Lease<M> {
    fn drop(&mut self) {
        if !self.given_up && !self.pass_on() {
            drop(self.give_up());
            self.engine.erase_note(&self.record);
        }
    }
}

/// A way of holding: the parameter of [`Lease`] and [`LeaseView`](crate::LeaseView).
///
/// It is a type and no value, so that a program that upgrades a plain reader does not compile. Nor does one that releases a
/// run, which would count as crashed though its work is done: a run is no `Mode`.
#[expect(private_bounds, reason = "no other crate adds a way of holding")]
#[diagnostic::on_unimplemented(message = "a run ends by `finish` or `cancel`")]
pub trait Mode: Sealed {}

/// A way of holding one name, unlike that of several.
#[expect(private_bounds, reason = "no other crate adds a way of holding")]
pub trait SingleName: Sealed {
    /// What [`Lease::fence`](crate::Lease::fence) returns: `Option<Fence>`, or [`Fence`] where fencing cannot be switched
    /// off.
    type Fence: Granted;
}

/// A way of holding that can go on without its process: see [`Lease::detach`](crate::Lease::detach).
pub trait Detachable: Mode + SingleName {}

/// What only this crate implements.
pub(crate) trait Sealed: Clone + Send + Sync + Unpin + 'static {}

/// A way of holding that is known, unlike `()`.
pub(crate) trait Typed: Sealed {}

/// The fencing token of a grant.
pub(crate) trait Granted {
    fn of(fence: Option<Fence>) -> Self;
}

impl Granted for Option<Fence> {
    fn of(fence: Option<Fence>) -> Self {
        fence
    }
}

impl Granted for Fence {
    /// A noun that refuses `fencing(false)` has a fencing token with each lease.
    fn of(fence: Option<Fence>) -> Self {
        fence.unwrap_or(Fence::new(0))
    }
}

/// Makes types ways of holding: each with its fencing token if it is of one name, and with its markers.
macro_rules! modes {
    ($($mode:ty $(: $fence:ty $(, $marker:ident)*)?;)+) => {
        $(
            impl $crate::engine::guard::lease::handle::Sealed for $mode {}
            impl $crate::engine::guard::lease::handle::Mode for $mode {}
            impl $crate::engine::guard::lease::handle::Typed for $mode {}
            $(
                impl $crate::engine::guard::lease::handle::SingleName for $mode {
                    type Fence = $fence;
                }
                $(impl $crate::engine::guard::lease::handle::$marker for $mode {})*
            )?
        )+
    };
}
pub(crate) use modes;

/// Alone: the lease of a [`Mutex`](crate::Mutex), or of the writer of a [`RwLock`](crate::RwLock).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exclusive;

modes! {
    Exclusive: Option<Fence>, Detachable;
}

/// A lease, or a view of one, of any kind.
impl Sealed for () {}
impl Mode for () {}
impl SingleName for () {
    type Fence = Option<Fence>;
}

/// Who gets a lease without a request when its holder releases it: a waiting task of this client, or the other guards of
/// an [owner](crate::engine::guard::owner::Owner).
pub(crate) trait PassOn: Send + Sync {
    /// Passes the lease on. False when there is no one to get it: the caller then releases the lease.
    fn pass_on(self: Arc<Self>, engine: &Arc<Engine>, record: &Arc<LeaseRecord>, id: Id) -> bool;

    /// Ends that without a next holder, because the lease is detached.
    fn end_of(self: Arc<Self>, record: &Arc<LeaseRecord>);

    /// True if others hold the lease at the same time.
    fn is_shared(&self) -> bool {
        false
    }

    /// Notes whether a request may change how the lease is held. False if the lease passes to no one after a change.
    fn set_changing(&self, _changing: bool) -> bool {
        false
    }

    /// Goes on with the lease that this one was changed into.
    ///
    /// `late_requests`: the server may still run a request of the acquisition.
    fn changed(&self, _into: &Arc<LeaseRecord>, _id: Id, _late_requests: bool) {}

    /// Returns the ttl that renewals ask for after the holder has extended the lease to `asked`.
    fn renewal_ttl(&self, asked: Ttl) -> Ttl {
        asked
    }
}
