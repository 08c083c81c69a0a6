//! The limiter without async.

use std::time::Duration;

use super::wait::wait;
use crate::base::error::InvalidInput;
use crate::base::name::Name;
use crate::limiter::{LimiterError, RateDecision};

/// A [`Limiter`](crate::Limiter) whose calls block the calling thread.
#[derive(Debug, Clone)]
#[must_use = "a limiter does nothing until permits are acquired"]
pub struct Limiter {
    pub(super) client: crate::Client,
    pub(super) limiter: crate::Limiter,
}

impl Limiter {
    /// As [`Limiter::rate`](crate::Limiter::rate).
    pub fn rate(mut self, limit: u32, period: Duration) -> Self {
        self.limiter = self.limiter.rate(limit, period);
        self
    }

    /// As [`Limiter::and`](crate::Limiter::and).
    pub fn and(mut self, limit: u32, period: Duration) -> Self {
        self.limiter = self.limiter.and(limit, period);
        self
    }

    /// As [`Limiter::burst`](crate::Limiter::burst).
    pub fn burst(mut self, burst: u32) -> Self {
        self.limiter = self.limiter.burst(burst);
        self
    }

    fn about(&self) -> Name {
        let name = self.limiter.name().and_then(|name| Name::new(name).ok());
        name.unwrap_or_else(Name::placeholder)
    }

    /// As [`Limiter::validate`](crate::Limiter::validate).
    ///
    /// # Errors
    /// [`InvalidInput`] says what would be valid. Nothing is sent.
    pub fn validate(mut self) -> Result<Self, InvalidInput> {
        self.limiter = self.limiter.validate()?;
        Ok(self)
    }

    waiting! { limiter, "Limiter":
        /// [`LimiterError`]; that the rate is used up is not an error.
        try_acquire(cost: u32) -> Result<RateDecision, LimiterError>;
        /// [`LimiterError`]; the caller must not act.
        acquire(cost: u32) -> Result<(), LimiterError>;
        /// [`LimiterError::Limited`] at once when it would take longer than the limit.
        acquire_within(cost: u32, limit: Duration) -> Result<(), LimiterError>;
    }
}
