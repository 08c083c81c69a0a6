//! The fields `RateLimit-Policy` and `RateLimit`, as draft-ietf-httpapi-ratelimit-headers-11 has them.
//!
//! Both are lists of structured fields (RFC 9651): strings with whole numbers as parameters.

use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use leaselock::satellite::Band;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Returns both fields: the policies of all bands, and the limit that the caller has made of one of them.
pub(super) fn fields(bands: &[Band], limit: Option<String>) -> HeaderMap {
    let policies: Vec<String> = bands.iter().map(policy).collect();
    let mut fields = HeaderMap::new();
    for (name, text) in [(POLICY, Some(policies.join(", "))), (LIMIT, limit)] {
        if let Some(Ok(value)) = text.map(HeaderValue::try_from) {
            fields.insert(name, value); // digits and letters always make a value
        }
    }
    fields
}

/// The item of a band that allows `left` permits now. It allows a whole burst again when its bucket is empty.
pub(super) fn limit_with(band: &Band, left: u32) -> String {
    let used = band.burst.unwrap_or(band.limit).saturating_sub(left);
    limit(band, left, seconds(band.period * used / band.limit))
}

/// The item of a band that allows no permit for so many seconds.
pub(super) fn limit_without(band: &Band, retry_after_s: u64) -> String {
    limit(band, 0, retry_after_s)
}

fn limit(band: &Band, left: u32, window_s: u64) -> String {
    format!("{};r={left};t={window_s}", identifier(band))
}

/// A window is in whole seconds: 5 in 100 ms are 50 in a second.
fn policy(band: &Band) -> String {
    let window_s = seconds(band.period);
    let quota = u128::from(band.limit) * u128::from(window_s) * 1_000_000_000;
    let quota = quota / band.period.as_nanos().max(1);
    format!("{};q={quota};w={window_s}", identifier(band))
}

/// Tells nothing about the name of the limiter, which may be a user's.
fn identifier(band: &Band) -> String {
    format!("\"{}s\"", band.period.as_secs_f64())
}

/// Whole seconds, rounded up: at the end of them it is not too early.
pub(super) fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn band(limit: u32, period_ms: u64, burst: Option<u32>) -> Band {
        Band {
            limit,
            period: Duration::from_millis(period_ms),
            burst,
        }
    }

    #[test]
    fn a_policy_is_in_whole_seconds_and_allows_no_more_than_the_rate() {
        for (band, text) in [
            (band(100, 1000, Some(20)), "\"1s\";q=100;w=1"),
            (band(1000, 3_600_000, None), "\"3600s\";q=1000;w=3600"),
            (band(5, 100, None), "\"0.1s\";q=50;w=1"),
            (band(5, 1500, None), "\"1.5s\";q=6;w=2"),
            (band(u32::MAX, 1, None), "\"0.001s\";q=4294967295000;w=1"),
        ] {
            assert_eq!(policy(&band), text);
        }
    }

    #[test]
    fn the_window_of_a_limit_ends_when_a_whole_burst_is_there_again() {
        let [slow, fast] = [band(10, 60_000, Some(3)), band(30, 1000, None)];
        for (band, left, text) in [
            (&slow, 2, "\"60s\";r=2;t=6"),
            (&slow, 0, "\"60s\";r=0;t=18"),
            (&fast, 29, "\"1s\";r=29;t=1"),
            (&fast, 0, "\"1s\";r=0;t=1"),
            (&slow, 3, "\"60s\";r=3;t=0"),
        ] {
            assert_eq!(limit_with(band, left), text);
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
