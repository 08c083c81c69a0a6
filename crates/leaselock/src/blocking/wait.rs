//! Blocking the calling thread until the client's own thread has done the work.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use leaselock_fence::Name;

use crate::barrier::BarrierError;
use crate::base::error::{
    AcquireError, ExtendError, InvalidInput, Lost, MultiReleaseError, ReleaseError, StoreError,
};
use crate::counter::CounterError;
use crate::cron::CronError;
use crate::election::ProclaimError;
use crate::engine::services::lease::loss::LossWatch;
use crate::latch::LatchError;
use crate::limiter::LimiterError;
use crate::once::OnceError;
use crate::rwlock::ChangeError;

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

/// Writes the setters of what is inside.
macro_rules! setting {
    ($inside:ident, $of:literal: $($name:ident($($arg:ident: $type:ty),*);)*) => {
        $(#[doc = concat!("As [`", $of, "::", stringify!($name), "`](crate::", $of, "::", stringify!($name), ").")]
        pub fn $name(mut self, $($arg: $type),*) -> Self {
            self.$inside = self.$inside.$name($($arg),*);
            self
        })*
    };
}

/// Writes the check of what was set.
macro_rules! validating {
    ($inside:ident, $of:literal) => {
        #[doc = as_async!(concat!($of, "::validate"))]
        /// [`InvalidInput`](crate::error::InvalidInput) says what would be valid. Nothing is sent.
        pub fn validate(mut self) -> Result<Self, $crate::base::error::InvalidInput> {
            self.$inside = self.$inside.validate()?;
            Ok(self)
        }
    };
}

/// Writes the methods that acquire.
macro_rules! acquiring {
    ($inside:ident, $of:literal, $lease:ty: $($name:ident($($arg:ident: $type:ty),*);)*) => {
        $(#[doc = as_async!(concat!($of, "::", stringify!($name)))]
        /// [`AcquireError`]: every variant says what you hold after it.
        pub fn $name(&self, $($arg: $type),*) -> Result<$lease, AcquireError> {
            let lease = wait(&self.client, self.about(), self.$inside.$name($($arg),*))?;
            Ok(<$lease>::new(&self.client, lease))
        })*
    };
}

/// Writes the methods that acquire at once, or not at all.
macro_rules! trying {
    ($inside:ident, $of:literal, $lease:ty: $($name:ident($($arg:ident: $type:ty),*);)*) => {
        $(#[doc = as_async!(concat!($of, "::", stringify!($name)))]
        /// [`AcquireError`]; busy is not an error.
        pub fn $name(&self, $($arg: $type),*) -> Result<Option<$lease>, AcquireError> {
            let lease = wait(&self.client, self.about(), self.$inside.$name($($arg),*))?;
            Ok(lease.map(|lease| <$lease>::new(&self.client, lease)))
        })*
    };
}

/// Writes the methods that the leases of all kinds have.
macro_rules! holding {
    ($inside:ident) => {
        fn about(&self) -> leaselock_fence::Name {
            self.$inside.name().clone()
        }

        forwarded! { $inside:
            /// Returns the name that the lease protects.
            name -> &leaselock_fence::Name;
            /// Returns the fencing token; `None` without fencing.
            fence -> Option<leaselock_fence::Fence>;
            /// As [`Lease::sequencer`](crate::Lease::sequencer).
            sequencer -> Option<leaselock_fence::Sequencer>;
            /// As [`Lease::retries`](crate::Lease::retries).
            retries -> u32;
            /// Returns the ttl that each renewal asks for.
            ttl -> std::time::Duration;
            /// Returns how long you may still act, unless the lease is extended.
            remaining -> std::time::Duration;
            /// Returns true if you may act now.
            is_held -> bool;
            /// Returns whether the lease is held, suspect or lost.
            state -> $crate::engine::guard::lease::LeaseState;
            /// Returns a value with which other threads check whether the lease is lost.
            lost -> $crate::engine::services::lease::loss::LossWatch;
            /// Returns a view for other threads, which can read but not extend or release.
            view -> $crate::engine::guard::lease::LeaseView;
            /// As [`Lease::lend`](crate::Lease::lend).
            ///
            /// # Errors
            /// [`ExtendError`](crate::ExtendError); the lease is as it was.
            lend -> Result<$crate::client::lending::LentHandle, $crate::base::error::ExtendError>;
        }

        waiting! { $inside, "Lease":
            /// [`ExtendError`](crate::ExtendError): every variant says what it means for the lease.
            extend(ttl: std::time::Duration) -> Result<(), $crate::base::error::ExtendError>;
        }

        /// Waits for at most `limit` for the lease to end; `None` when it is still held then.
        pub fn lost_within(&self, limit: std::time::Duration) -> Option<$crate::base::error::Lost> {
            $crate::blocking::wait::lost_within(&self.client, self.$inside.lost(), limit)
        }

        /// Calls `callback` once, on the client's own thread, when the lease ends: also by a release.
        ///
        /// The callback must not block.
        pub fn on_lost(&self, callback: impl FnOnce($crate::base::error::Lost) + Send + 'static) {
            $crate::blocking::wait::on_lost(&self.client, self.$inside.lost(), callback);
        }
    };
}

/// Runs the future on the client's thread. A client whose thread cannot start is a store error.
pub(super) fn wait<T, E: CannotStart>(
    client: &crate::Client,
    about: Name,
    future: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    match client.engine().background() {
        Ok(background) => background.handle.clone().block_on(future),
        Err(source) => Err(E::cannot_start(about, source)),
    }
}

/// Waits for at most `limit` for the lease to end.
pub(super) fn lost_within(
    client: &crate::Client,
    lost: LossWatch,
    limit: Duration,
) -> Option<Lost> {
    let so_far = |lost: &LossWatch| lost.check().err();
    let Ok(background) = client.engine().background() else {
        return so_far(&lost);
    };
    let again = lost.clone();
    let ended = async { tokio::time::timeout(limit, lost).await };
    match background.handle.clone().block_on(ended) {
        Ok(lost) => Some(lost),
        Err(_) => so_far(&again),
    }
}

/// Calls `callback` on the client's thread when the lease ends.
pub(super) fn on_lost(
    client: &crate::Client,
    lost: LossWatch,
    callback: impl FnOnce(Lost) + Send + 'static,
) {
    if let Ok(background) = client.engine().background() {
        drop(background.handle.spawn(async move { callback(lost.await) }));
    }
}

/// Runs a request that changes a lease. When it fails, its error has the lease as this front shows it.
pub(super) fn change<T, L: fmt::Debug, Shown: fmt::Debug, F>(
    client: &crate::Client,
    about: Name,
    lease: L,
    request: impl FnOnce(L) -> F,
    shown: impl FnOnce(L) -> Shown,
) -> Result<T, ChangeError<Shown>>
where
    F: Future<Output = Result<T, ChangeError<L>>>,
{
    let changed = match client.engine().background() {
        Ok(background) => background.handle.clone().block_on(request(lease)),
        Err(source) => {
            let error = Box::new(AcquireError::cannot_start(about, source));
            Err(ChangeError { lease, error })
        }
    };
    changed.map_err(|ChangeError { lease, error }| ChangeError {
        lease: shown(lease),
        error,
    })
}

/// The error of an operation whose client cannot start its thread.
pub(super) trait CannotStart {
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
errors_with_names!(
    AcquireError ExtendError ReleaseError LatchError BarrierError ProclaimError LimiterError CounterError
    OnceError CronError
);

impl CannotStart for MultiReleaseError {
    fn cannot_start(name: Name, source: StoreError) -> Self {
        MultiReleaseError::from_one(ReleaseError::Store { name, source })
    }
}

impl<E: From<StoreError>> CannotStart for E {
    fn cannot_start(_: Name, source: StoreError) -> Self {
        source.into()
    }
}

/// Returns the name, or one that stands for it, for an error that comes before its checks.
pub(super) fn shown_name(name: &Result<Name, InvalidInput>) -> Name {
    name.clone().unwrap_or_else(|_| refused_name())
}

/// Returns a name for an error that knows none.
pub(super) fn refused_name() -> Name {
    Name::new("(refused name)").expect("it keeps the rules of names")
}
