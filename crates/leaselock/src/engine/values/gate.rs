//! Strict mode: a server that may have lost leases grants nothing until all of them have expired.
//!
//! One key, the gate, names the server process that may grant, and which run of it. A process that finds no gate, or
//! that of another process, closes it for the longest ttl (`lua/gate.lua`). This file handles the replies about that.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::calls::operation;
use super::grant::Seen;
use super::log::LogEvent;
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
    /// The end of the latest quarantine that a reply reported. Its fact, until a grant shows that it is over.
    until: Mutex<Option<(Moment, Option<String>)>>,
    /// How many quarantines there were.
    pub(crate) met: AtomicU64,
}

impl Strict {
    pub(crate) fn new(gate: Arc<QuarantineKey>) -> Self {
        Strict {
            gate,
            until: Mutex::default(),
            met: AtomicU64::new(0),
        }
    }

    /// Notes a reply about a quarantine. Returns an event of the first one about each.
    pub(crate) fn began(&self, seen: &Seen, now: Moment) -> Option<LogEvent> {
        /// Replies about the same quarantine differ by less.
        const SAME: Duration = Duration::from_secs(1);
        let (why, remaining) = (seen.quarantine?, seen.remaining.unwrap_or_default());
        let end = now.plus(remaining);
        let mut known = hold(&self.until);
        if let Some((known, _)) = known.as_mut().filter(|(known, _)| end <= known.plus(SAME)) {
            *known = end;
            return None;
        }
        let end_ms = u128::from(seen.time_us / 1000) + remaining.as_millis();
        let fact = format!("quarantine/{}", end_ms / 1000);
        *known = Some((end, Some(fact.clone())));
        self.met.fetch_add(1, Ordering::Relaxed);
        let remaining = rounded(remaining);
        tracing::warn!(target: "leaselock", reason = %why, remaining, "strict mode: no lock is granted until all old leases have expired");
        Some(LogEvent::new("quarantine_began", why.to_string()).fact(fact))
    }

    /// Notes a grant. Returns an event if it shows that a quarantine is over: of several gates another one may have let it
    /// through, while the time of the quarantine is not over.
    pub(crate) fn ended(&self, now: Moment, is_one_gate: bool) -> Option<LogEvent> {
        let mut known = hold(&self.until);
        let over = known.as_mut().filter(|(end, _)| is_one_gate || now >= *end);
        let fact = over?.1.take()?;
        Some(LogEvent::new("quarantine_over", "locks are granted again").fact(fact + "/over"))
    }

    /// Returns how long the known quarantine still lasts.
    pub(crate) fn left(&self, now: Moment) -> Duration {
        let until = hold(&self.until).as_ref().map(|(until, _)| *until);
        until.map_or(Duration::ZERO, |until| until.saturating_since(now))
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
    use crate::base::error::Quarantine;

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

    fn closed(left_ms: u64, now: u64) -> Seen {
        Seen {
            remaining: Some(Duration::from_millis(left_ms)),
            time_us: now * 1_000,
            quarantine: Some(Quarantine::Moved),
            ..Seen::default()
        }
    }

    #[test]
    fn each_quarantine_is_reported_once_and_the_next_one_again() {
        let strict = strict(1_000);
        let began = |left, now| strict.began(&closed(left, now), at(now)).is_some();
        assert_eq!(strict.left(at(0)), Duration::ZERO);
        assert!(began(3_000, 0));
        assert!(!began(2_000, 1_005) && !began(0, 3_010));
        assert_eq!(strict.left(at(3_000)), Duration::from_millis(10));
        assert!(
            began(3_000, 3_500),
            "the server was restarted in the middle"
        );
        assert!(began(3_000, 60_000));
        assert_eq!(strict.met.load(Ordering::Relaxed), 3);
        assert!(strict.began(&Seen::default(), at(90_000)).is_none());
    }

    #[test]
    fn a_grant_ends_a_quarantine_once_and_behind_another_gate_only_when_its_time_is_over() {
        let strict = strict(1_000);
        let ended = |now, is_one_gate| strict.ended(at(now), is_one_gate).is_some();
        assert!(!ended(0, true), "there is none");
        assert!(strict.began(&closed(3_000, 0), at(0)).is_some());
        assert!(!ended(2_999, false) && ended(3_000, false) && !ended(3_001, true));
        let late = strict.began(&closed(0, 3_002), at(3_002));
        assert!(late.is_none() && !ended(3_003, true), "a late reply");
        assert!(strict.began(&closed(3_000, 9_000), at(9_000)).is_some());
        assert!(ended(9_001, true), "an operator ended it");
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
