//! The toy's handle.

use std::future::Future;
use std::time::Duration;

use leaselock_fence::Name;

use super::kind::TOY;
use crate::base::error::{AcquireError, InvalidInput};
use crate::client::Client;
use crate::client::named::Named;
use crate::client::options::setters;
use crate::client::run::{RunError, run_under};
use crate::engine::guard::lease::handle::Exclusive;
use crate::engine::guard::lease::{Lease, LeaseView};

/// A semaphore of one.
#[derive(Debug, Clone)]
pub struct Toy {
    named: Named,
}

impl Client {
    /// The toy of this name.
    pub fn toy(&self, name: impl Into<String>) -> Toy {
        let named = Named::new(&self.state, &TOY, name.into());
        Toy { named }
    }
}

impl Toy {
    setters!(named.options);

    /// The name; `None` when it is not well-formed.
    pub fn name(&self) -> Option<&str> {
        self.named.name.as_ref().ok().map(Name::as_str)
    }

    /// Refuses what the first operation would refuse.
    pub fn validate(self) -> Result<Self, InvalidInput> {
        self.named.validate()?;
        Ok(self)
    }

    /// Takes it if it is free and no waiter is ahead.
    pub async fn try_acquire(&self) -> Result<Option<Lease>, AcquireError> {
        self.named.try_acquire().await
    }

    /// Takes it, waiting as the options say.
    pub async fn acquire(&self) -> Result<Lease, AcquireError> {
        self.named.acquire().await
    }

    /// Runs `body` under a lease.
    pub async fn run<T, E, F, Fut>(&self, body: F) -> Result<T, RunError<E, T>>
    where
        F: FnOnce(LeaseView<Exclusive>) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        run_under(self.acquire().await?, body).await
    }

    /// Takes it, waiting for at most `limit`.
    pub async fn acquire_within(&self, limit: Duration) -> Result<Lease, AcquireError> {
        self.named.acquire_within(limit).await
    }
}
