//! The same API for programs without async.
//!
//! Each call blocks the calling thread while the client's own thread does the work. Do not call these from inside an
//! async runtime: they panic there rather than stop the executor.
//!
//! ```
//! use leaselock::blocking::Client;
//!
//! let client = Client::connect("mem:")?;
//! let lease = client.mutex("invoices").acquire()?;
//! // the work; lease.is_held() says whether it may go on
//! lease.release()?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::future::Future;
use std::time::Duration;

use crate::base::error::{
    AcquireError, BreakError, ExtendError, InspectError, InvalidInput, Lost, ReleaseError,
    StoreError,
};
use crate::base::fence::Fence;
use crate::base::name::Name;
use crate::client::detached::Handle;
use crate::client::inspect::{BreakOptions, BreakOutcome, Holder, Inspection};
use crate::client::options::setters;
use crate::client::{CloseReport, Stats};
use crate::engine::gate::StrictStatus;
use crate::engine::lease::loss::LossWatch;
use crate::engine::lease::{LeaseState, LeaseView};
use crate::interop::preset::Preset;
use crate::mutex::{RunError, RunResult};
use crate::store::report::Report;

/// The methods of what is inside that need no waiting.
macro_rules! forwarded {
    ($inside:ident: $($(#[$doc:meta])* $name:ident -> $answer:ty;)*) => {
        $($(#[$doc])* pub fn $name(&self) -> $answer { self.$inside.$name() })*
    };
}

/// A [`Client`](crate::Client) whose calls block the calling thread.
#[derive(Debug, Clone)]
pub struct Client {
    client: crate::Client,
}

impl From<crate::Client> for Client {
    fn from(client: crate::Client) -> Self {
        Client { client }
    }
}

impl Client {
    /// As [`Client::connect`](crate::Client::connect).
    ///
    /// # Errors
    /// [`InvalidInput`] says what is wrong with the URL.
    pub fn connect(url: &str) -> Result<Self, InvalidInput> {
        crate::Client::connect(url).map(Client::from)
    }

    forwarded! { client:
        /// As [`Client::held`](crate::Client::held).
        held -> Vec<LeaseView>;

        /// As [`Client::stats`](crate::Client::stats).
        stats -> Stats;
    }

    fn wait<T>(
        &self,
        future: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let handle = self.client.engine().background()?.handle.clone();
        handle.block_on(future)
    }

    /// Returns the lock of this name.
    pub fn mutex(&self, name: impl Into<String>) -> Mutex {
        Mutex {
            client: self.client.clone(),
            mutex: self.client.mutex(name),
        }
    }

    /// As [`Client::inspect`](crate::Client::inspect).
    ///
    /// # Errors
    /// [`InspectError`] when the name is bad or the store does not reply.
    pub fn inspect(&self, name: &str) -> Result<Inspection, InspectError> {
        self.wait(async { Ok(self.client.inspect(name).await) })?
    }

    /// As [`Client::list`](crate::Client::list).
    ///
    /// # Errors
    /// [`InspectError`] when the store does not reply.
    pub fn list(&self, pattern: &str) -> Result<Vec<Inspection>, InspectError> {
        self.wait(async { Ok(self.client.list(pattern).await) })?
    }

    /// As [`Client::break_lease`](crate::Client::break_lease).
    ///
    /// # Errors
    /// [`BreakError`] says why nothing was broken.
    pub fn break_lease(&self, name: &str, terms: BreakOptions) -> Result<BreakOutcome, BreakError> {
        self.wait(async { Ok(self.client.break_lease(name, terms).await) })?
    }

    /// As [`Client::doctor`](crate::Client::doctor).
    ///
    /// # Errors
    /// [`StoreError`] when the store does not reply.
    pub fn doctor(&self) -> Result<Report, StoreError> {
        self.wait(self.client.doctor())
    }

    /// As [`Client::init_strict`](crate::Client::init_strict).
    ///
    /// # Errors
    /// [`StoreError`] when this client is not in strict mode, or the store does not reply.
    pub fn init_strict(&self) -> Result<(), StoreError> {
        self.wait(self.client.init_strict())
    }

    /// As [`Client::strict_status`](crate::Client::strict_status).
    ///
    /// # Errors
    /// [`StoreError`] when the store does not reply or is not a server.
    pub fn strict_status(&self) -> Result<StrictStatus, StoreError> {
        self.wait(self.client.strict_status())
    }

    /// As [`Client::load_functions`](crate::Client::load_functions).
    ///
    /// # Errors
    /// [`StoreError`] when the store has no functions, or the user may not load them.
    #[cfg(feature = "redis")]
    pub fn load_functions(&self) -> Result<crate::LoadedFunctions, StoreError> {
        self.wait(self.client.load_functions())
    }

    /// Continues a lease that another process has detached.
    pub fn attach(&self, handle: Handle) -> DetachedLease {
        DetachedLease {
            client: self.client.clone(),
            lease: self.client.attach(handle),
        }
    }

    /// As [`Client::close`](crate::Client::close).
    pub fn close(&self) -> CloseReport {
        let nothing = CloseReport {
            released: 0,
            unconfirmed: 0,
        };
        self.wait(async { Ok(self.client.close().await) })
            .unwrap_or(nothing)
    }
}

/// A [`Mutex`](crate::Mutex) whose calls wait on the calling thread.
#[derive(Debug, Clone)]
#[must_use = "a mutex does nothing until it is acquired"]
pub struct Mutex {
    client: crate::Client,
    mutex: crate::Mutex,
}

/// Runs a future of an operation on the client's thread; a client whose thread cannot start is a store error.
macro_rules! waited {
    ($self:ident, $error:ident, $name:expr, $future:expr) => {
        match $self.client.engine().background() {
            Ok(background) => background.handle.clone().block_on($future),
            Err(source) => Err($error::Store {
                name: $name,
                source,
            }),
        }
    };
}

impl Mutex {
    setters!(mutex.options);

    /// As [`Mutex::preset`](crate::Mutex::preset).
    pub fn preset(mut self, preset: Preset) -> Self {
        self.mutex = self.mutex.preset(preset);
        self
    }

    fn name(&self) -> Name {
        self.mutex.shown_name()
    }

    /// As [`Mutex::try_acquire`](crate::Mutex::try_acquire).
    ///
    /// # Errors
    /// [`AcquireError`]; busy is not an error.
    pub fn try_acquire(&self) -> Result<Option<Lease>, AcquireError> {
        let lease = waited!(self, AcquireError, self.name(), self.mutex.try_acquire())?;
        Ok(lease.map(|lease| self.lease(lease)))
    }

    /// As [`Mutex::acquire`](crate::Mutex::acquire).
    ///
    /// # Errors
    /// [`AcquireError`]: every variant says what you hold after it.
    pub fn acquire(&self) -> Result<Lease, AcquireError> {
        waited!(self, AcquireError, self.name(), self.mutex.acquire())
            .map(|lease| self.lease(lease))
    }

    /// As [`Mutex::acquire_within`](crate::Mutex::acquire_within).
    ///
    /// # Errors
    /// [`AcquireError::StillBusy`] when other clients held it to the end.
    pub fn acquire_within(&self, limit: Duration) -> Result<Lease, AcquireError> {
        waited!(
            self,
            AcquireError,
            self.name(),
            self.mutex.acquire_within(limit)
        )
        .map(|lease| self.lease(lease))
    }

    /// As [`Mutex::holder`](crate::Mutex::holder).
    ///
    /// # Errors
    /// [`InspectError`]: it is not known whether any client holds it.
    pub fn holder(&self) -> Result<Option<Holder>, InspectError> {
        let background = self.client.engine().background()?;
        background.handle.clone().block_on(self.mutex.holder())
    }

    /// Runs `body` under a lease and releases it, also on panic.
    ///
    /// A thread cannot be stopped from outside, so a long body calls [`LeaseView::is_held`] or [`LossWatch::check`] in between;
    /// a loss is reported when the body ends.
    ///
    /// # Errors
    /// [`RunError::Acquire`]: the body did not run. [`RunError::Lost`]: the lease was gone before the body ended.
    pub fn run<T>(&self, body: impl FnOnce(&LeaseView) -> T) -> Result<RunResult<T>, RunError> {
        let lease = self.acquire()?;
        let value = body(&lease.view());
        lease.lost().check()?;
        let released = lease.release();
        Ok(RunResult { value, released })
    }

    fn lease(&self, lease: crate::Lease) -> Lease {
        Lease {
            client: self.client.clone(),
            lease,
        }
    }
}

/// A [`Lease`](crate::Lease) whose calls block the calling thread. Dropping it releases soon, not now.
#[must_use = "dropping a lease gives it up"]
#[clippy::has_significant_drop]
pub struct Lease {
    client: crate::Client,
    lease: crate::Lease,
}

impl Lease {
    forwarded! { lease:
        /// The name that it is for.
        name -> &Name;

        /// The fencing token; `None` when fencing was switched off.
        fence -> Option<Fence>;

        /// As [`Lease::retries`](crate::Lease::retries).
        retries -> u32;

        /// The length that each renewal asks for.
        ttl -> Duration;

        /// How long you may still act, unless it is extended.
        remaining -> Duration;

        /// Whether you may act now.
        is_held -> bool;

        /// Held, suspect or lost.
        state -> LeaseState;

        /// A token to ask whether it is lost, for other threads.
        lost -> LossWatch;

        /// A view for other threads, which can read but not extend or release.
        view -> LeaseView;
    }

    /// Waits for at most `limit` for the lease to end; `None` when it is still held then.
    pub fn lost_within(&self, limit: Duration) -> Option<Lost> {
        let Ok(background) = self.client.engine().background() else {
            return self.lease.lost().check().err();
        };
        background.handle.clone().block_on(async {
            tokio::select! {
                lost = self.lease.lost() => Some(lost),
                () = tokio::time::sleep(limit) => self.lease.lost().check().err(),
            }
        })
    }

    /// Calls `told` once, on the client's own thread, when the lease ends.
    ///
    /// For whatever reason, a release included. It must not block.
    pub fn on_lost(&self, told: impl FnOnce(Lost) + Send + 'static) {
        let losing = self.lease.lost();
        if let Ok(background) = self.client.engine().background() {
            drop(background.handle.spawn(async move { told(losing.await) }));
        }
    }

    /// As [`Lease::extend`](crate::Lease::extend).
    ///
    /// # Errors
    /// [`ExtendError`]: every variant says what it means for the lease.
    pub fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        waited!(
            self,
            ExtendError,
            self.lease.name().clone(),
            self.lease.extend(ttl)
        )
    }

    /// As [`Lease::release`](crate::Lease::release).
    ///
    /// # Errors
    /// [`ReleaseError`]: nothing is held after any of them.
    pub fn release(self) -> Result<(), ReleaseError> {
        let name = self.lease.name().clone();
        waited!(self, ReleaseError, name, self.lease.release())
    }

    /// As [`Lease::detach`](crate::Lease::detach).
    ///
    /// # Errors
    /// [`ExtendError`]; the client then gives the lease up.
    pub fn detach(self) -> Result<Handle, ExtendError> {
        let name = self.lease.name().clone();
        waited!(self, ExtendError, name, self.lease.detach())
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lease.fmt(f)
    }
}

/// A [`DetachedLease`](crate::DetachedLease) whose calls block the calling thread.
#[derive(Debug)]
pub struct DetachedLease {
    client: crate::Client,
    lease: crate::DetachedLease,
}

impl DetachedLease {
    forwarded! { lease:
        /// The lock's name.
        name -> &Name;

        /// The fencing token of the lease.
        fence -> Option<Fence>;
    }

    /// As [`DetachedLease::extend`](crate::DetachedLease::extend).
    ///
    /// # Errors
    /// [`ExtendError::Lost`] when the lease is gone.
    pub fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        waited!(
            self,
            ExtendError,
            self.lease.name().clone(),
            self.lease.extend(ttl)
        )
    }

    /// As [`DetachedLease::release`](crate::DetachedLease::release).
    ///
    /// # Errors
    /// [`ReleaseError::NotHeld`] when it was not held any more.
    pub fn release(self) -> Result<(), ReleaseError> {
        let name = self.lease.name().clone();
        waited!(self, ReleaseError, name, self.lease.release())
    }
}
