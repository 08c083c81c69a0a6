//! Clients, mutexes, read-write locks, semaphores and leases for programs without async.
//!
//! Each call blocks the calling thread while the client's own thread does the work. Do not call these from inside an
//! async runtime: they panic there rather than stop the executor. Read-write locks and semaphores have no such form yet.
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
use crate::client::detached;
use crate::client::detached::Handle;
use crate::client::inspection::{BreakOptions, BreakOutcome, Holder, Inspection};
use crate::client::options::setters;
use crate::client::run::{RunError, RunResult};
use crate::client::{CloseReport, Stats};
use crate::engine::gate::StrictStatus;
use crate::engine::lease::loss::LossWatch;
use crate::engine::lease::{LeaseState, LeaseView};
use crate::interop::preset::Preset;
#[cfg(feature = "redis")]
use crate::store::redis::LoadedFunctions;
use crate::store::report::Report;

/// Writes the methods of what is inside that need no waiting.
macro_rules! forwarded {
    ($inside:ident: $($(#[$meta:meta])* $name:ident -> $answer:ty;)*) => {
        $($(#[$meta])* pub fn $name(&self) -> $answer { self.$inside.$name() })*
    };
}

/// Refers to the async method.
macro_rules! as_async {
    ($method:expr) => {
        concat!("As [`", $method, "`](crate::", $method, ").\n\n# Errors")
    };
}

/// Writes the methods that are async inside: the thread blocks until they are done. Their comments tell the errors.
macro_rules! waiting {
    ($inside:ident, $of:literal: $($(#[$meta:meta])* $name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(#[doc = as_async!(concat!($of, "::", stringify!($name)))]
        $(#[$meta])* pub fn $name(&self, $($arg: $type),*) -> $answer {
            wait(&self.client, self.about(), self.$inside.$name($($arg),*))
        })*
    };
}

/// Writes the methods that acquire.
macro_rules! acquiring {
    ($inside:ident, $of:literal: $($name:ident($($arg:ident: $type:ty),*);)*) => {
        $(#[doc = as_async!(concat!($of, "::", stringify!($name)))]
        /// [`AcquireError`]: every variant says what you hold after it.
        pub fn $name(&self, $($arg: $type),*) -> Result<Lease, AcquireError> {
            let lease = wait(&self.client, self.about(), self.$inside.$name($($arg),*))?;
            Ok(Lease::new(&self.client, lease))
        })*
    };
}

/// Writes the methods that acquire at once, or not at all.
macro_rules! trying {
    ($inside:ident, $of:literal: $($name:ident($($arg:ident: $type:ty),*);)*) => {
        $(#[doc = as_async!(concat!($of, "::", stringify!($name)))]
        /// [`AcquireError`]; busy is not an error.
        pub fn $name(&self, $($arg: $type),*) -> Result<Option<Lease>, AcquireError> {
            let lease = wait(&self.client, self.about(), self.$inside.$name($($arg),*))?;
            Ok(lease.map(|lease| Lease::new(&self.client, lease)))
        })*
    };
}

mod rwlock;
mod semaphore;

pub use self::rwlock::RwLock;
pub use self::semaphore::Semaphore;

/// Runs the future on the client's thread. A client whose thread cannot start is a store error.
fn wait<T, E: CannotStart>(
    client: &crate::Client,
    about: Name,
    future: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    match client.engine().background() {
        Ok(background) => background.handle.clone().block_on(future),
        Err(source) => Err(E::cannot_start(about, source)),
    }
}

/// The error of an operation whose client cannot start its thread.
trait CannotStart {
    fn cannot_start(name: Name, source: StoreError) -> Self;
}

macro_rules! errors_with_names {
    ($($error:ident)*) => {
        $(impl CannotStart for $error {
            fn cannot_start(name: Name, source: StoreError) -> Self {
                $error::Store { name, source }
            }
        })*
    };
}
errors_with_names!(AcquireError ExtendError ReleaseError);

impl<E: From<StoreError>> CannotStart for E {
    fn cannot_start(_: Name, source: StoreError) -> Self {
        source.into()
    }
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

    /// Returns the lock of this name.
    pub fn mutex(&self, name: impl Into<String>) -> Mutex {
        Mutex {
            client: self.client.clone(),
            mutex: self.client.mutex(name),
        }
    }

    /// Errors of a client's methods name no lock.
    fn about(&self) -> Name {
        Name::placeholder()
    }

    /// As [`Client::owner`](crate::Client::owner).
    pub fn owner(&self, label: impl Into<String>) -> crate::Owner {
        self.client.owner(label)
    }

    forwarded! { client:
        /// As [`Client::held`](crate::Client::held).
        held -> Vec<LeaseView>;
        /// As [`Client::stats`](crate::Client::stats).
        stats -> Stats;
    }

    waiting! { client, "Client":
        /// [`InspectError`] when the name is bad or the store does not reply.
        inspect(name: &str) -> Result<Inspection, InspectError>;
        /// [`InspectError`] when the store does not reply.
        list(pattern: &str) -> Result<Vec<Inspection>, InspectError>;
        /// [`BreakError`] says why nothing was broken.
        break_lease(name: &str, terms: BreakOptions) -> Result<BreakOutcome, BreakError>;
        /// [`StoreError`] when the store does not reply.
        doctor() -> Result<Report, StoreError>;
        /// [`StoreError`] when this client is not in strict mode, or the store does not reply.
        init_strict() -> Result<(), StoreError>;
        /// [`StoreError`] when the store does not reply or is not a server.
        strict_status() -> Result<StrictStatus, StoreError>;
        /// [`StoreError`] when the store has no functions, or the user may not load them.
        #[cfg(feature = "redis")]
        load_functions() -> Result<LoadedFunctions, StoreError>;
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
        let close = async { Ok::<_, StoreError>(self.client.close().await) };
        wait(&self.client, self.about(), close).unwrap_or_default()
    }
}

/// A [`Mutex`](crate::Mutex) whose calls block the calling thread.
#[derive(Debug, Clone)]
#[must_use = "a mutex does nothing until it is acquired"]
pub struct Mutex {
    client: crate::Client,
    mutex: crate::Mutex,
}

impl Mutex {
    setters!(mutex.named.options);

    /// As [`Mutex::preset`](crate::Mutex::preset).
    pub fn preset(mut self, preset: Preset) -> Self {
        self.mutex = self.mutex.preset(preset);
        self
    }

    fn about(&self) -> Name {
        self.mutex.named.shown_name()
    }

    acquiring! { mutex, "Mutex":
        acquire();
        acquire_within(limit: Duration);
    }

    trying! { mutex, "Mutex":
        try_acquire();
    }

    waiting! { mutex, "Mutex":
        /// [`InspectError`]: it is not known whether any client holds it.
        holder() -> Result<Option<Holder>, InspectError>;
    }

    /// Runs `body` under a lease and releases it, also on panic.
    ///
    /// A thread cannot be stopped from outside. So a long body calls [`LeaseView::is_held`] or [`LossWatch::check`] from
    /// time to time, and the client reports a loss when the body ends.
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
}

/// A [`Lease`](crate::Lease) whose calls block the calling thread. Dropping it releases it in the background.
#[must_use = "dropping a lease gives it up"]
#[clippy::has_significant_drop]
pub struct Lease {
    client: crate::Client,
    lease: crate::Lease,
}

impl Lease {
    fn new(client: &crate::Client, lease: impl Into<crate::Lease>) -> Self {
        Lease {
            client: client.clone(),
            lease: lease.into(),
        }
    }

    fn about(&self) -> Name {
        self.lease.name().clone()
    }

    forwarded! { lease:
        /// Returns the name that the lease protects.
        name -> &Name;
        /// Returns the fencing token; `None` without fencing.
        fence -> Option<Fence>;
        /// As [`Lease::retries`](crate::Lease::retries).
        retries -> u32;
        /// Returns the ttl that each renewal asks for.
        ttl -> Duration;
        /// Returns how long you may still act, unless the lease is extended.
        remaining -> Duration;
        /// Returns true if you may act now.
        is_held -> bool;
        /// Returns whether the lease is held, suspect or lost.
        state -> LeaseState;
        /// Returns a value with which other threads check whether the lease is lost.
        lost -> LossWatch;
        /// Returns a view for other threads, which can read but not extend or release.
        view -> LeaseView;
    }

    waiting! { lease, "Lease":
        /// [`ExtendError`]: every variant says what it means for the lease.
        extend(ttl: Duration) -> Result<(), ExtendError>;
    }

    /// As [`Lease::detach`](crate::Lease::detach).
    ///
    /// # Errors
    /// [`ExtendError`]; the client then gives the lease up.
    pub fn detach(self) -> Result<Handle, ExtendError> {
        wait(&self.client, self.about(), self.lease.detach())
    }

    /// As [`Lease::release`](crate::Lease::release).
    ///
    /// # Errors
    /// [`ReleaseError`]: nothing is held after any of them.
    pub fn release(self) -> Result<(), ReleaseError> {
        wait(&self.client, self.about(), self.lease.release())
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

    /// Calls `callback` once, on the client's own thread, when the lease ends: also by a release.
    ///
    /// The callback must not block.
    pub fn on_lost(&self, callback: impl FnOnce(Lost) + Send + 'static) {
        let lost = self.lease.lost();
        if let Ok(background) = self.client.engine().background() {
            drop(background.handle.spawn(async move { callback(lost.await) }));
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lease.fmt(f)
    }
}

/// A [`DetachedLease`](crate::detached::DetachedLease) whose calls block the calling thread.
#[derive(Debug)]
pub struct DetachedLease {
    client: crate::Client,
    lease: detached::DetachedLease,
}

impl DetachedLease {
    fn about(&self) -> Name {
        self.lease.name().clone()
    }

    forwarded! { lease:
        /// Returns the lock's name.
        name -> &Name;
        /// Returns the fencing token of the lease.
        fence -> Option<Fence>;
    }

    /// As [`DetachedLease::extend`](crate::detached::DetachedLease::extend).
    ///
    /// # Errors
    /// [`ExtendError::Lost`] when the lease is gone.
    pub fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        wait(&self.client, self.about(), self.lease.extend(ttl))
    }

    /// As [`DetachedLease::release`](crate::detached::DetachedLease::release).
    ///
    /// # Errors
    /// [`ReleaseError::NotHeld`] when it was not held any more.
    pub fn release(self) -> Result<(), ReleaseError> {
        wait(&self.client, self.about(), self.lease.release())
    }
}
