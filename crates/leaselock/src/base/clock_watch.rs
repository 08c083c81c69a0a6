//! Detection of jumps of a server's clock against ours.
//!
//! Key expiry follows the server's wall clock, so a step of that clock makes leases end early or late. The client
//! cannot prevent a step, but detects it. Each reply carries server time; with the moments of request and reply it
//! bounds the offset between both clocks.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::clock::Moment;
use super::shorthand::hold;

/// Clocks may drift by this share of the time between two replies before the drift counts as a jump.
const DRIFT_SHARE: i128 = 100;
/// Drift that is allowed in any case, in microseconds: timer resolution and slewing.
const SLACK_US: i128 = 5_000;

#[derive(Debug, Default)]
pub(crate) struct ClockWatch {
    /// True if replies come from several servers, whose clocks differ without any of them jumping.
    several: bool,
    bounds: Mutex<Option<Bounds>>,
    jumps: AtomicU64,
    last_ms: AtomicI64,
}

#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Server time less ours, in microseconds, is at least `low_us` and at most `high_us`.
    low_us: i128,
    high_us: i128,
    at_us: i128,
}

impl ClockWatch {
    /// Creates a watch for a store of one clock. With several clocks it detects nothing.
    pub(crate) fn of(several: bool) -> Self {
        ClockWatch {
            several,
            ..ClockWatch::default()
        }
    }

    /// Records one reply; true if the server's clock has jumped since the previous one.
    pub(crate) fn note(&self, sent: Moment, received: Moment, server_us: u64) -> bool {
        if self.several {
            return false;
        }
        let micros = |moment: Moment| i128::from(moment.as_nanos() / 1000);
        let server = i128::from(server_us);
        let new = Bounds {
            low_us: server - micros(received),
            high_us: server - micros(sent) + 1,
            at_us: micros(received),
        };
        let mut known = hold(&self.bounds);
        let old = known.replace(new);
        let Some(old) = old else { return false };
        let slack = SLACK_US + (new.at_us - old.at_us).abs() / DRIFT_SHARE;
        let jumped = new.low_us > old.high_us + slack || new.high_us < old.low_us - slack;
        if jumped {
            let by_ms = (new.low_us - old.low_us) / 1000;
            let by_ms = i64::try_from(by_ms).unwrap_or(i64::MAX);
            self.last_ms.store(by_ms, Ordering::SeqCst);
            self.jumps.fetch_add(1, Ordering::SeqCst);
            if by_ms > 0 {
                tracing::warn!(
                    target: "leaselock", by_ms,
                    "the store's clock went forward: leases that were held may have ended early"
                );
            } else {
                tracing::warn!(
                    target: "leaselock", by_ms,
                    "the store's clock went back: leases end later there, and a crashed holder blocks others for longer"
                );
            }
        }
        jumped
    }

    /// Returns the size of the last jump in milliseconds.
    pub(crate) fn last_ms(&self) -> Option<i64> {
        (self.jumps() > 0).then(|| self.last_ms.load(Ordering::SeqCst))
    }

    /// Counts the jumps: server times from before and after one cannot be compared.
    pub(crate) fn jumps(&self) -> u64 {
        self.jumps.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Moment {
        Moment::from_nanos(us * 1000)
    }

    #[test]
    fn slow_answers_and_drift_are_no_jump() {
        let skew = ClockWatch::default();
        assert!(!skew.note(at(0), at(100), 1_000_050));
        assert!(!skew.note(at(10_000), at(3_010_000), 1_011_000));
        assert!(!skew.note(at(4_000_000), at(4_000_100), 5_005_000));
    }

    #[test]
    fn clocks_of_several_servers_are_not_compared() {
        let skew = ClockWatch::of(true);
        assert!(!skew.note(at(0), at(100), 1_000_000));
        assert!(!skew.note(at(1000), at(1100), 21_001_000));
        assert_eq!((skew.jumps(), skew.last_ms()), (0, None));
    }

    #[test]
    fn a_step_either_way_is_seen_once() {
        let skew = ClockWatch::default();
        assert!(!skew.note(at(0), at(100), 1_000_000));
        assert_eq!(skew.last_ms(), None);
        assert!(skew.note(at(1000), at(1100), 21_001_000));
        assert!(!skew.note(at(2000), at(2100), 21_002_000));
        assert!(skew.note(at(3000), at(3100), 1_003_000));
        assert_eq!((skew.jumps(), skew.last_ms()), (2, Some(-20_000)));
    }
}
