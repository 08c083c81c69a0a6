//! governor: a rate limiter of one process, without a server: the bound for what a try can cost.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

use super::{Contender, Hold, Lock, Rate, Setup, Turn, Want};

#[derive(Default)]
pub struct Governor(Mutex<HashMap<String, Arc<DefaultDirectRateLimiter>>>);

impl Contender for Governor {
    type Lock = GovernorLock;

    async fn connect(_: &Setup) -> Result<Self, String> {
        Ok(Governor::default())
    }

    /// It has no locks, so no workload asks for one.
    fn lock(&self, _: &str) -> GovernorLock {
        GovernorLock(Arc::new(RateLimiter::direct(Quota::per_second(
            NonZeroU32::MIN,
        ))))
    }

    fn wanting(&self, name: &str, want: Want) -> Option<GovernorLock> {
        let Want::Rate(rate) = want else {
            return None;
        };
        let quota = quota(rate)?;
        let mut limiters = self.0.lock().ok()?;
        let limiter = limiters.entry(name.to_owned());
        let limiter = limiter.or_insert_with(|| Arc::new(RateLimiter::direct(quota)));
        Some(GovernorLock(Arc::clone(limiter)))
    }
}

fn quota(rate: Rate) -> Option<Quota> {
    let period = Duration::from_secs(rate.seconds.into()) / rate.permits;
    let burst = NonZeroU32::new(rate.burst)?;
    Some(Quota::with_period(period)?.allow_burst(burst))
}

pub struct GovernorLock(Arc<DefaultDirectRateLimiter>);

impl Lock for GovernorLock {
    async fn turn(&mut self, _: &Hold) -> Result<Turn, String> {
        let turn = Turn::ended(u64::from(self.0.check().is_ok()));
        tokio::task::yield_now().await; // it never waits, and others want the processor too
        Ok(turn)
    }
}
