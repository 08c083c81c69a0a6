//! The duration of a lease, and the deadline of its holder.

use std::time::Duration;

use leaselock_fence::InvalidInput;

use super::clock::Moment;
use super::span::span;

/// The shortest ttl: 10 ms. With a shorter one, drift and a single round trip leave no time to work.
pub const TTL_MIN: Duration = Duration::from_millis(10);
/// The longest ttl: 30 days. A crashed holder blocks every waiter for its ttl.
pub const TTL_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// The default ttl: 10 s.
///
/// It survives a pause of the process or the network, and is short enough to wait for after a crash. Many lock libraries
/// have the same default.
pub const DEFAULT_TTL: Duration = Duration::from_secs(10);

/// The duration of a lease: 10 ms to 30 days, in whole milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ttl(u64);

impl Ttl {
    /// How long a lease lasts whose ttl no caller has set.
    pub(crate) const DEFAULT: Ttl = Ttl(10_000);

    pub(crate) fn new(ttl: Duration) -> Result<Self, InvalidInput> {
        let in_range = (TTL_MIN..=TTL_MAX).contains(&ttl);
        match u64::try_from(ttl.as_millis()) {
            Ok(ms) if in_range => Ok(Ttl(ms)),
            _ => Err(InvalidInput::new(format!(
                "ttl {} is out of range: from 10 ms to 30 days (10 s is the default)",
                span(ttl)
            ))),
        }
    }

    pub(crate) const fn whole_ms(ms: u64) -> Option<Self> {
        if ms >= 10 && ms <= 30 * 24 * 3600 * 1000 {
            Some(Ttl(ms))
        } else {
            None
        }
    }

    pub(crate) const fn as_ms(self) -> u64 {
        self.0
    }

    pub(crate) const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }

    pub(crate) fn min(self, other: Ttl) -> Ttl {
        Ttl(self.0.min(other.0))
    }
}

/// Drift: how far the clocks of client and server may run apart during one lease.
///
/// `deadline = t0 + ttl - (ttl * rho + 2 ms)`, where `t0` was read before the request could leave. This is the
/// validity of the Redlock algorithm (redis.io, *Distributed locks with Redis*), in integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Drift {
    pub(crate) ppm: u32,
}

/// Covers the server's millisecond rounding of key expiry.
const FLOOR: Duration = Duration::from_millis(2);

impl Drift {
    pub(crate) fn of(self, ttl: Ttl) -> Duration {
        Duration::from_nanos(ttl.as_ms().saturating_mul(u64::from(self.ppm))) + FLOOR
    }

    /// Returns how far clocks may drift apart in this time.
    pub(crate) fn over(self, time: Duration) -> Duration {
        let nanos = time.as_nanos().saturating_mul(u128::from(self.ppm)) / 1_000_000;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the deadline of a lease of `ttl` whose request began at `t0`.
    pub(crate) fn deadline(self, t0: Moment, ttl: Ttl) -> Moment {
        t0.plus(ttl.as_duration().saturating_sub(self.of(ttl)))
    }

    /// Returns the deadline of a lease that the server granted `since` after `t0`, by its own clock.
    ///
    /// The clocks may have drifted apart during that time too.
    pub(crate) fn deadline_after(self, t0: Moment, since: Duration, ttl: Ttl) -> Moment {
        let whole = since.saturating_add(ttl.as_duration());
        let drift = self.over(since).saturating_add(self.of(ttl));
        t0.plus(whole.saturating_sub(drift))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_outside_its_range_is_refused_and_the_range_is_named() {
        for bad in [
            Duration::ZERO,
            Duration::from_millis(9),
            Duration::from_secs(2_592_001),
            Duration::MAX,
        ] {
            let refusal = Ttl::new(bad).unwrap_err().to_string();
            assert!(refusal.contains("10 ms to 30 days"), "{refusal}");
        }
        assert_eq!(Ttl::new(TTL_MIN).unwrap().as_ms(), 10);
        assert_eq!(Ttl::new(TTL_MAX).unwrap().as_ms(), 2_592_000_000);
    }

    #[test]
    fn validity_is_ttl_less_one_percent_and_two_milliseconds() {
        let drift = Drift { ppm: 10_000 };
        let t0 = Moment::from_nanos(1_000_000_000);
        let deadline = drift.deadline(t0, Ttl::new(Duration::from_secs(10)).unwrap());
        assert_eq!(deadline.saturating_since(t0), Duration::from_millis(9898));
    }

    #[test]
    fn the_time_before_a_lease_was_handed_over_counts_for_drift_too() {
        let drift = Drift { ppm: 10_000 };
        let (t0, ttl) = (
            Moment::from_nanos(0),
            Ttl::new(Duration::from_secs(5)).unwrap(),
        );
        let deadline = drift.deadline_after(t0, Duration::from_secs(3), ttl);
        assert_eq!(deadline.saturating_since(t0), Duration::from_millis(7918));
        assert_eq!(
            drift.deadline_after(t0, Duration::ZERO, ttl),
            drift.deadline(t0, ttl)
        );
    }

    #[test]
    fn a_drift_larger_than_the_ttl_leaves_no_validity_and_does_not_wrap() {
        let t0 = Moment::from_nanos(1_000);
        let deadline = Drift { ppm: 1_000_000 }.deadline(t0, Ttl::new(TTL_MIN).unwrap());
        assert_eq!(deadline, t0);
    }
}
