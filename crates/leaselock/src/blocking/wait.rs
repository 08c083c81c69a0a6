//! Blocking the calling thread until the client's own thread has done the work.

use std::future::Future;

use crate::base::error::{AcquireError, ExtendError, ReleaseError, StoreError};
use crate::base::name::Name;

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
errors_with_names!(AcquireError ExtendError ReleaseError);

impl<E: From<StoreError>> CannotStart for E {
    fn cannot_start(_: Name, source: StoreError) -> Self {
        source.into()
    }
}
