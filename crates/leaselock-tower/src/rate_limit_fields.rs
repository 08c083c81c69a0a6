//! The fields `RateLimit-Policy` and `RateLimit`, as draft-ietf-httpapi-ratelimit-headers-11 has them.
//!
//! Both are lists of structured fields (RFC 9651): strings with whole numbers as parameters.

use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use leaselock::limiter::Rate;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Returns both fields: the policies of all rates, and the limit that the caller has made of one of them.
pub(super) fn fields(rates: &[Rate], limit: Option<String>) -> HeaderMap {
    let policies: Vec<String> = rates.iter().map(policy).collect();
    let mut fields = HeaderMap::new();
    for (name, text) in [(POLICY, Some(policies.join(", "))), (LIMIT, limit)] {
        if let Some(Ok(value)) = text.map(HeaderValue::try_from) {
            fields.insert(name, value); // digits and letters always make a value
        }
    }
    fields
}

/// The item of a rate that allows `left` permits now. It allows a whole burst again when its bucket is empty.
pub(super) fn limit_with(rate: &Rate, left: u32) -> String {
    let used = rate.at_once().saturating_sub(left);
    limit(rate, left, seconds(rate.period() * used / rate.limit()))
}

/// The item of a rate that allows no permit for so many seconds.
pub(super) fn limit_without(rate: &Rate, retry_after_s: u64) -> String {
    limit(rate, 0, retry_after_s)
}

fn limit(rate: &Rate, left: u32, window_s: u64) -> String {
    format!("{};r={left};t={window_s}", identifier(rate))
}

/// A window is in whole seconds: 5 in 100 ms are 50 in a second.
fn policy(rate: &Rate) -> String {
    let window_s = seconds(rate.period());
    let quota = u128::from(rate.limit()) * u128::from(window_s) * 1_000_000_000;
    let quota = quota / rate.period().as_nanos().max(1);
    format!("{};q={quota};w={window_s}", identifier(rate))
}

/// Tells nothing about the name of the limiter, which may be a user's.
fn identifier(rate: &Rate) -> String {
    format!("\"{}s\"", rate.period().as_secs_f64())
}

/// Whole seconds, rounded up: at the end of them it is not too early.
pub(super) fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(limit: u32, period_ms: u64, burst: Option<u32>) -> Rate {
        let rate = Rate::new(limit, Duration::from_millis(period_ms));
        burst.map_or(rate, |burst| rate.burst(burst))
    }

    #[test]
    fn a_policy_is_in_whole_seconds_and_allows_no_more_than_the_rate() {
        for (one, text) in [
            (rate(100, 1000, Some(20)), "\"1s\";q=100;w=1"),
            (rate(1000, 3_600_000, None), "\"3600s\";q=1000;w=3600"),
            (rate(5, 100, None), "\"0.1s\";q=50;w=1"),
            (rate(5, 1500, None), "\"1.5s\";q=6;w=2"),
            (rate(u32::MAX, 1, None), "\"0.001s\";q=4294967295000;w=1"),
        ] {
            assert_eq!(policy(&one), text);
        }
    }

    #[test]
    fn the_window_of_a_limit_ends_when_a_whole_burst_is_there_again() {
        let [slow, fast] = [rate(10, 60_000, Some(3)), rate(30, 1000, None)];
        for (one, left, text) in [
            (&slow, 2, "\"60s\";r=2;t=6"),
            (&slow, 0, "\"60s\";r=0;t=18"),
            (&fast, 29, "\"1s\";r=29;t=1"),
            (&fast, 0, "\"1s\";r=0;t=1"),
            (&slow, 3, "\"60s\";r=3;t=0"),
        ] {
            assert_eq!(limit_with(one, left), text);
        }
        assert_eq!(limit_without(&slow, 7), "\"60s\";r=0;t=7");
    }

    #[test]
    fn seconds_are_never_too_few() {
        let times = [0, 1, 999_999_999, 1_000_000_000, 1_000_000_001];
        let seconds = times.map(|nanos| seconds(Duration::from_nanos(nanos)));
        assert_eq!(seconds, [0, 1, 1, 1, 2]);
    }
}
