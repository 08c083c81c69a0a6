//! Which server replies, and when it may vote. Pure.
//!
//! A server that starts empty has forgotten what it granted. So it stays out of votes until the longest lease that it
//! could have known has expired. This is the delayed restart of the Redlock algorithm (redis.io, *Distributed locks
//! with Redis*). A restart breaks every connection, so one request for each connection is enough.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use crate::base::{Drift, Moment};

/// The server counts whole seconds, by a clock that it reads at intervals.
const ROUNDING: Duration = Duration::from_secs(1);

/// What a server reports about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Eligibility {
    /// A hash of its run id, which is new with every start.
    pub(crate) server: u64,
    /// How long it had been running, at least,
    up: Duration,
    /// at this moment.
    at: Moment,
    /// Its clock, in microseconds, when it reports that.
    pub(crate) time_us: Option<u64>,
}

impl Eligibility {
    /// Parses `INFO server`, whose reply came at `received`.
    pub(crate) fn read(info: &str, received: Moment) -> Option<Self> {
        let field = |name: &str| {
            let lines = info.lines();
            lines
                .filter_map(|line| line.split_once(':'))
                .find_map(|(key, value)| (key == name).then_some(value.trim()))
        };
        let up: u64 = field("uptime_in_seconds")?.parse().ok()?;
        let run_id = field("run_id").filter(|id| !id.is_empty())?;
        let mut hasher = DefaultHasher::new();
        run_id.hash(&mut hasher);
        Some(Eligibility {
            server: hasher.finish(),
            up: Duration::from_secs(up).saturating_sub(ROUNDING),
            at: received,
            time_us: field("server_time_usec").and_then(|us| us.parse().ok()),
        })
    }

    /// Returns how long it stays out of votes, given the longest lease; zero for a server that votes.
    pub(crate) fn stays_out(&self, longest: Duration, drift: Drift, now: Moment) -> Duration {
        let up = self.up + now.saturating_since(self.at);
        (longest + drift.over(longest)).saturating_sub(up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRIFT: Drift = Drift { ppm: 10_000 };

    fn info(up: u64) -> String {
        format!(
            "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nuptime_in_seconds:{up}\r\nserver_time_usec:17\r\n"
        )
    }

    #[test]
    fn a_server_stays_out_until_the_longest_lease_of_its_former_life_has_ended() {
        let now = Moment::from_nanos(100_000_000_000);
        let minute = Duration::from_secs(60);
        let out = |up| {
            let birth = Eligibility::read(&info(up), now).unwrap();
            birth.stays_out(minute, DRIFT, now)
        };
        assert_eq!(out(0), Duration::from_millis(60_600)); // a minute and 1 %
        assert_eq!(out(60), Duration::from_millis(1_600)); // and the second that it may be younger
        assert_eq!(out(61), Duration::from_millis(600));
        assert_eq!(out(62), Duration::ZERO);
        let birth = Eligibility::read(&info(60), now).unwrap();
        let later = now.plus(Duration::from_millis(1_600));
        assert_eq!(birth.stays_out(minute, DRIFT, later), Duration::ZERO);
    }

    #[test]
    fn one_that_is_older_than_our_own_machine_votes() {
        let now = Moment::from_nanos(5_000_000_000);
        let birth = Eligibility::read(&info(1_000_000), now).unwrap();
        let out = birth.stays_out(Duration::from_secs(60), DRIFT, now);
        assert_eq!(out, Duration::ZERO);
    }

    #[test]
    fn what_does_not_say_which_server_it_is_is_not_understood() {
        let now = Moment::from_nanos(0);
        for bad in [
            "",
            "run_id:a",
            "uptime_in_seconds:5",
            "run_id:\r\nuptime_in_seconds:5",
        ] {
            assert_eq!(Eligibility::read(bad, now), None, "{bad:?}");
        }
        let known = Eligibility::read(&info(5), now).unwrap();
        assert_eq!(known.time_us, Some(17));
    }
}
