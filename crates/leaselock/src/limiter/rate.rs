//! Rates: what the user says, and the numbers that the scripts compute with.

use std::time::Duration;

#[cfg(feature = "serde")]
use crate::base::serde_units::ms;
use crate::base::{InvalidInput, span};
use crate::script::Call;

const RATES_MAX: usize = 8;
/// The shortest and the longest period of a rate.
const PERIOD_MIN: Duration = Duration::from_millis(1);
const PERIOD_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// No reservation is further away.
const WAIT_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Whole numbers are exact in a script up to twice this. A level is at most a whole burst and
/// what the longest wait takes off.
const EXACT: u64 = 1 << 52;

/// So many permits in each period on average; one period may see twice the limit, unless the burst is smaller.
///
/// In any one period the clients use at most the limit and the burst. A period is 1 ms to 30 days.
///
/// With the feature `serde`: `{"limit": 100, "period_ms": 1000, "burst": 20}`, where `burst` may be missing. The period is in
/// whole milliseconds. As with [`new`](Rate::new), the first use of a limiter refuses a rate that it cannot have.
///
/// # Examples
/// ```
/// use leaselock::limiter::Rate;
///
/// let rate = Rate::per_second(100).burst(20); // at most 120 in any second
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[must_use = "a rate limits nothing until a limiter has it"]
pub struct Rate {
    limit: u32,
    #[cfg_attr(feature = "serde", serde(rename = "period_ms", with = "ms"))]
    period: Duration,
    burst: Option<u32>,
}

impl Rate {
    /// So many permits in each period.
    pub const fn new(limit: u32, period: Duration) -> Self {
        Rate {
            limit,
            period,
            burst: None,
        }
    }

    /// So many permits in each second.
    pub const fn per_second(limit: u32) -> Self {
        Rate::new(limit, Duration::from_secs(1))
    }

    /// So many permits in each minute.
    pub const fn per_minute(limit: u32) -> Self {
        Rate::new(limit, Duration::from_secs(60))
    }

    /// So many permits in each hour.
    pub const fn per_hour(limit: u32) -> Self {
        Rate::new(limit, Duration::from_secs(60 * 60))
    }

    /// So many permits in each 24 hours.
    pub const fn per_day(limit: u32) -> Self {
        Rate::new(limit, Duration::from_secs(24 * 60 * 60))
    }

    /// Sets how many permits there are at once after a pause; by default those of one period. No request asks for more.
    pub const fn burst(mut self, burst: u32) -> Self {
        self.burst = Some(burst);
        self
    }

    /// For the layers of `leaselock-tower`: how many permits there are at once.
    #[doc(hidden)]
    pub fn at_once(&self) -> u32 {
        self.burst.unwrap_or(self.limit)
    }

    /// Returns how many permits there are in a period.
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns the period.
    pub const fn period(&self) -> Duration {
        self.period
    }
}

/// All rates of a limiter, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CheckedRates {
    terms: Vec<RateTerms>,
}

/// A rate as `lua/limiter.lua` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RateTerms {
    period_us: u64,
    /// What a permit adds to the level.
    per_permit: u64,
    /// What a microsecond takes off.
    per_us: u64,
    burst: u32,
}

impl CheckedRates {
    pub(super) fn new(rates: &[Rate]) -> Result<Self, InvalidInput> {
        let refused = |text: String| Err(InvalidInput::new(text));
        if rates.len() > RATES_MAX {
            let count = rates.len();
            let most = format!("a limiter has at most {RATES_MAX} rates, and not {count}");
            return refused(most);
        }
        let terms: Vec<RateTerms> = rates.iter().map(RateTerms::new).collect::<Result<_, _>>()?;
        for (index, one) in terms.iter().enumerate() {
            let has_its_period = |other: &RateTerms| other.period_us == one.period_us;
            if terms[..index].iter().any(has_its_period) {
                let period = span(rates[index].period);
                return refused(format!(
                    "two rates of a limiter have the period {period}: give the lower one alone"
                ));
            }
        }
        Ok(CheckedRates { terms })
    }

    /// How many permits one request may ask for.
    pub(super) fn burst(&self) -> u32 {
        self.terms
            .iter()
            .map(|terms| terms.burst)
            .min()
            .unwrap_or(0)
    }

    /// The longest wait that the scripts compute exactly.
    pub(super) fn longest_wait(&self) -> Duration {
        let waits = self.terms.iter().map(|terms| EXACT / terms.per_us);
        let exact = waits.min().map_or(Duration::ZERO, Duration::from_micros);
        exact.min(WAIT_MAX)
    }

    /// How late a caller may use its permits: the time that a whole burst takes, and at least a second.
    pub(super) fn tolerance(&self) -> Duration {
        let bursts = self
            .terms
            .iter()
            .map(|terms| u64::from(terms.burst) * terms.per_permit / terms.per_us);
        let burst = bursts.min().map_or(Duration::ZERO, Duration::from_micros);
        burst.max(Duration::from_secs(1))
    }

    pub(super) fn write_to(&self, call: &mut Call) {
        for terms in &self.terms {
            call.arg(terms.period_us)
                .arg(terms.per_permit)
                .arg(terms.per_us)
                .arg(u64::from(terms.burst));
        }
    }
}

impl RateTerms {
    fn new(rate: &Rate) -> Result<Self, InvalidInput> {
        let Rate { limit, period, .. } = *rate;
        let refused = |text: String| Err(InvalidInput::new(text));
        if limit == 0 {
            return refused("a rate has at least 1 permit in its period, and not 0".into());
        }
        if !(PERIOD_MIN..=PERIOD_MAX).contains(&period) {
            let period = span(period);
            return refused(format!(
                "the period of a rate is 1 ms to 30 days, and not {period}"
            ));
        }
        let burst = rate.at_once();
        if burst == 0 {
            return refused("a burst has at least 1 permit, and not 0".into());
        }
        let period_us = u64::try_from(period.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX);
        let common = common_divisor(period_us, u64::from(limit));
        let (per_permit, per_us) = (period_us / common, u64::from(limit) / common);
        let largest = EXACT / per_permit;
        if u64::from(burst) > largest {
            let period = span(period);
            return refused(format!(
                "{limit} permits in {period} are computed exactly for a burst of at most {largest}, and not {burst}: give a \
                 smaller burst or a rounder rate"
            ));
        }
        Ok(RateTerms {
            period_us,
            per_permit,
            per_us,
            burst,
        })
    }
}

/// Euclid's algorithm (*Elements*, book VII, proposition 2).
fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(limit: u32, period: Duration, burst: Option<u32>) -> Rate {
        let rate = Rate::new(limit, period);
        burst.map_or(rate, |burst| rate.burst(burst))
    }

    #[test]
    fn a_rate_is_written_in_whole_numbers_without_a_common_divisor() {
        let second = Duration::from_secs(1);
        let rate = CheckedRates::new(&[
            rate(100, second, Some(20)),
            rate(30_000, 60 * second, None),
            rate(7, second * 3, None),
        ])
        .unwrap();
        let terms = |period_us, per_permit, per_us, burst| RateTerms {
            period_us,
            per_permit,
            per_us,
            burst,
        };
        assert_eq!(
            rate.terms,
            [
                terms(1_000_000, 10_000, 1, 20),
                terms(60_000_000, 2_000, 1, 30_000),
                terms(3_000_000, 3_000_000, 7, 7)
            ]
        );
        assert_eq!(rate.burst(), 7);
        assert_eq!(rate.tolerance(), second);
    }

    #[test]
    fn a_period_is_rounded_up_so_that_no_more_is_allowed_than_asked_for() {
        let period = Duration::from_millis(1) + Duration::from_nanos(1);
        let rate = CheckedRates::new(&[rate(1, period, None)]).unwrap();
        assert_eq!(rate.terms[0].period_us, 1001);
    }

    #[test]
    fn a_rate_that_no_script_could_compute_exactly_is_refused_and_the_right_one_named() {
        let day = Duration::from_secs(24 * 60 * 60);
        for (rates, right) in [
            (vec![rate(0, day, None)], "at least 1 permit in its period"),
            (vec![rate(1, day, Some(0))], "a burst has at least 1"),
            (vec![rate(1, Duration::ZERO, None)], "1 ms to 30 days"),
            (vec![rate(1, 31 * day, None)], "1 ms to 30 days"),
            (vec![rate(1, day, None), rate(2, day, None)], "two rates"),
            (vec![rate(1, day, None); 9], "at most 8 rates"),
            // A prime number of permits in a day.
            (vec![rate(999_983, day, None)], "at most 52124"),
        ] {
            let refused = CheckedRates::new(&rates).unwrap_err().to_string();
            assert!(refused.contains(right), "{refused}");
        }
        assert!(CheckedRates::new(&[rate(1_000_000, day, None)]).is_ok());
        assert!(CheckedRates::new(&[rate(999_983, day, Some(52_124))]).is_ok());
    }

    /// Levels are doubles in a script.
    #[test]
    fn the_highest_level_of_a_rate_is_exact_in_a_script() {
        for (limit, period_ms, burst) in [(999_983, 86_400_000, 52_124), (u32::MAX, 1, u32::MAX)] {
            let rate =
                CheckedRates::new(&[rate(limit, Duration::from_millis(period_ms), Some(burst))]);
            let rate = rate.unwrap();
            let wait_us = u64::try_from(rate.longest_wait().as_micros()).unwrap();
            let RateTerms {
                per_permit, per_us, ..
            } = rate.terms[0];
            let level = u64::from(burst) * per_permit + wait_us * per_us;
            assert!(level <= 1 << 53, "{level}");
            assert!(wait_us > 0);
        }
    }
}
