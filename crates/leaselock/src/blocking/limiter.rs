//! The limiter without async.

use std::time::Duration;

use leaselock_fence::Name;

use super::wait::{refused_name, wait};
use crate::limiter::{LimiterError, RateDecision};

/// A [`Limiter`](crate::Limiter) whose calls block the calling thread.
#[derive(Debug, Clone)]
#[must_use = "a limiter does nothing until permits are acquired"]
pub struct Limiter {
    pub(super) client: crate::Client,
    pub(super) limiter: crate::Limiter,
}

impl Limiter {
    setting! { limiter, "Limiter":
        rate(limit: u32, period: Duration);
        and(limit: u32, period: Duration);
        burst(burst: u32);
    }

    fn about(&self) -> Name {
        let name = self.limiter.name().and_then(|name| Name::new(name).ok());
        name.unwrap_or_else(refused_name)
    }

    validating!(limiter, "Limiter");

    waiting! { limiter, "Limiter":
        /// [`LimiterError`]; that the rate is used up is not an error.
        try_acquire(cost: u32) -> Result<RateDecision, LimiterError>;
        /// [`LimiterError`]; the caller must not act.
        acquire(cost: u32) -> Result<(), LimiterError>;
        /// [`LimiterError::Limited`] at once when it would take longer than the limit.
        acquire_within(cost: u32, limit: Duration) -> Result<(), LimiterError>;
    }
}
