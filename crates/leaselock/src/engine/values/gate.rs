//! Strict mode: a server that may have lost leases grants nothing until all of them have expired.
//!
//! One key, the gate, names the server process that may grant, and which run of it. A process that finds no gate, or
//! that of another process, closes it for the longest ttl (`lua/gate.lua`). This file handles the replies about that.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::calls::operation;
use crate::base::error::Quarantine;
use crate::base::{Moment, Ttl, hold, rounded};
use crate::script::keys::QuarantineKey;
use crate::script::{Answer, Malformed, Script, script};

/// The state of strict mode on one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StrictStatus {
    /// There is no gate: the next acquisition begins a quarantine.
    Missing,
    /// The gate is that of another server process: the next acquisition begins a quarantine.
    Moved {
        /// The longest ttl that its users agreed on.
        longest: Duration,
    },
    /// A quarantine is running: the server grants no lock.
    Quarantined {
        /// How long the quarantine lasts from now.
        remaining: Duration,
        /// The longest ttl that its users agreed on.
        longest: Duration,
    },
    /// Locks are granted.
    Open {
        /// The longest ttl that its users agreed on.
        longest: Duration,
    },
}

impl StrictStatus {
    /// Combines the states of several gates: the one that delays grants longest counts.
    pub(crate) fn worse(self, other: Self) -> Self {
        let rank = |status: &Self| match status {
            StrictStatus::Open { .. } => (0, Duration::ZERO),
            StrictStatus::Quarantined { remaining, .. } => (1, *remaining),
            StrictStatus::Moved { .. } => (2, Duration::ZERO),
            StrictStatus::Missing => (3, Duration::ZERO),
        };
        if rank(&other) > rank(&self) {
            other
        } else {
            self
        }
    }
}

/// A client in strict mode.
#[derive(Debug)]
pub(crate) struct Strict {
    pub(crate) gate: Arc<QuarantineKey>,
    /// The end of the latest quarantine that a reply reported.
    until: Mutex<Option<Moment>>,
}

impl Strict {
    pub(crate) fn new(gate: Arc<QuarantineKey>) -> Self {
        Strict {
            gate,
            until: Mutex::default(),
        }
    }

    /// Notes a reply about a quarantine, and logs each quarantine once. True if this one is new.
    pub(crate) fn saw_quarantine(&self, why: Quarantine, remaining: Duration, now: Moment) -> bool {
        /// Replies about the same quarantine differ by less.
        const SAME: Duration = Duration::from_secs(1);
        let end = now.plus(remaining);
        let known = hold(&self.until).replace(end);
        let another = known.is_none_or(|known| end > known.plus(SAME));
        if another {
            let remaining = rounded(remaining);
            tracing::warn!(target: "leaselock", reason = %why, remaining, "strict mode: no lock is granted until all old leases have expired");
        }
        another
    }

    /// Returns how long the known quarantine still lasts.
    pub(crate) fn left(&self, now: Moment) -> Duration {
        hold(&self.until).map_or(Duration::ZERO, |until| until.saturating_since(now))
    }
}

pub(crate) static SCRIPTS: crate::script::Scripts = &[&INIT, &STATUS];

static INIT: Script = script!("strict/init");
static STATUS: Script = script!("strict/status", reads_only);

operation! {
    /// Opens the gate. Runs `lua/strict/init.lua`.
    pub(crate) struct Init<'a> {
        key: &'a str,
        longest: Ttl,
    }
    script &INIT;
    fn encode(call) {
        call.key(key).arg(longest.as_ms());
    }
    fn decode(answer) -> () {
        "opened" => (),
    }
    fn time_us(answer) {
        answer.number(0).ok()
    }
}

operation! {
    /// Reads the gate. Runs `lua/strict/status.lua`.
    pub(crate) struct Status<'a> {
        key: &'a str,
    }
    script &STATUS;
    fn encode(call) {
        call.key(key);
    }
    fn decode(answer) -> StrictStatus {
        "missing" => StrictStatus::Missing,
        "moved" => StrictStatus::Moved { longest: duration(answer, 0)? },
        "closed" => StrictStatus::Quarantined {
            remaining: duration(answer, 0)?,
            longest: duration(answer, 1)?,
        },
        "open" => StrictStatus::Open { longest: duration(answer, 0)? },
    }
}

fn duration(answer: &Answer, at: usize) -> Result<Duration, Malformed> {
    answer.number(at).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Drift;

    fn strict(longest_ms: u64) -> Strict {
        let longest = Ttl::whole_ms(longest_ms).unwrap();
        Strict::new(QuarantineKey::new(
            "",
            false,
            longest,
            Drift { ppm: 10_000 },
        ))
    }

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn each_quarantine_is_reported_once_and_the_next_one_again() {
        let strict = strict(1_000);
        let saw_quarantine = |left_ms, now| {
            let left = Duration::from_millis(left_ms);
            strict.saw_quarantine(Quarantine::Moved, left, at(now))
        };
        assert_eq!(strict.left(at(0)), Duration::ZERO);
        assert!(saw_quarantine(3_000, 0));
        assert!(!saw_quarantine(2_000, 1_005) && !saw_quarantine(0, 3_010));
        assert_eq!(strict.left(at(3_000)), Duration::from_millis(10));
        assert!(
            saw_quarantine(3_000, 3_500),
            "the server was restarted in the middle"
        );
        assert!(saw_quarantine(3_000, 60_000));
    }

    #[test]
    fn of_several_gates_the_one_that_delays_grants_longest_counts() {
        let (longest, second) = (Duration::from_secs(9), Duration::from_secs(1));
        let closed = |remaining| StrictStatus::Quarantined { remaining, longest };
        let by_rank = [
            StrictStatus::Open { longest },
            closed(second),
            closed(2 * second),
            StrictStatus::Moved { longest },
            StrictStatus::Missing,
        ];
        for pair in by_rank.windows(2) {
            assert_eq!(pair[0].worse(pair[1]), pair[1]);
            assert_eq!(pair[1].worse(pair[0]), pair[1]);
        }
    }

    #[test]
    fn a_ttl_that_could_outlive_a_quarantine_does_not_fit() {
        let gate = &strict(1_000).gate;
        assert!(gate.fits(Ttl::whole_ms(1_000).unwrap()).is_ok());
        let refusal = gate.fits(Ttl::whole_ms(1_001).unwrap()).unwrap_err();
        assert!(refusal.to_string().contains("1.001 s"), "{refusal}");
    }
}
