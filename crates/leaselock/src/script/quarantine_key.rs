//! The gate: the key of strict mode that records which server process grants.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{Drift, InvalidInput, Ttl, slots, span};

/// Added to the longest lease: the time of a grant on its way, and the rounding of the server.
const MARGIN: Duration = Duration::from_secs(2);

/// What all clients of one gate must agree on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct QuarantineKey {
    prefix: String,
    /// The gate's key, when one gate serves all locks; otherwise each slot has its own.
    key: Option<String>,
    pub(crate) longest: Ttl,
    quarantine: Duration,
}

/// Lists all the gates of a prefix.
///
/// Neighbouring slots are usually on one node, so they do not follow each other. A client that reads several gates at
/// once then reads from all nodes.
pub(crate) fn gates(prefix: &str, by_slot: bool) -> impl Iterator<Item = String> {
    const STRIDE: u16 = 10_127; // odd, so that each slot occurs once
    let one_is_enough = !by_slot || prefix.contains('{');
    let count = if one_is_enough { 1 } else { slots::SLOTS };
    let slot = |turn: u16| turn.wrapping_mul(STRIDE) % slots::SLOTS;
    (0..count).map(move |turn| gate(prefix, by_slot.then_some(slot(turn))))
}

impl QuarantineKey {
    pub(crate) fn new(prefix: &str, by_slot: bool, longest: Ttl, drift: Drift) -> Arc<Self> {
        Arc::new(QuarantineKey {
            prefix: prefix.to_owned(),
            key: (!by_slot).then(|| gate(prefix, None)),
            longest,
            quarantine: longest.as_duration() + drift.of(longest) + MARGIN,
        })
    }

    pub(crate) fn key_for(&self, lock: &str) -> Cow<'_, str> {
        match &self.key {
            Some(key) => Cow::Borrowed(key),
            None => Cow::Owned(gate(&self.prefix, Some(slots::of(lock)))),
        }
    }

    pub(crate) fn quarantine_ms(&self) -> u64 {
        u64::try_from(self.quarantine.as_millis()).unwrap_or(u64::MAX)
    }

    /// Refuses a ttl that could outlive a quarantine.
    pub(crate) fn fits(&self, ttl: Ttl) -> Result<(), InvalidInput> {
        if ttl <= self.longest {
            return Ok(());
        }
        let (ttl, longest) = (ttl.as_duration(), self.longest.as_duration());
        Err(InvalidInput::new(format!(
            "ttl {} is longer than the longest of strict mode, {}: ask for less, or let all who use this server agree on \
             a longer one",
            span(ttl),
            span(longest)
        )))
    }
}

/// Returns the key of the gate of strict mode, one for all locks of a prefix.
///
/// On a cluster, whose scripts have keys of one slot only, each slot has its own. A prefix with a hash tag has all its
/// locks in one slot, and its gate too.
pub(crate) fn gate(prefix: &str, slot: Option<u16>) -> String {
    match slot.filter(|_| !prefix.contains('{')) {
        Some(slot) => format!("{prefix}ll:gate:{{{}}}", slots::tag_in(slot)),
        None => format!("{prefix}ll:gate"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarantine_is_the_longest_ttl_and_its_drift_and_two_seconds() {
        let longest = Ttl::whole_ms(60_000).unwrap();
        let key = QuarantineKey::new("", false, longest, Drift { ppm: 10_000 });
        assert_eq!(key.quarantine_ms(), 60_000 + 602 + 2_000);
    }

    #[test]
    fn gates_of_a_cluster_are_one_in_each_slot_whatever_their_order() {
        let slots: std::collections::BTreeSet<u16> =
            gates("app:", true).map(|gate| slots::of(&gate)).collect();
        assert_eq!(slots.len(), usize::from(slots::SLOTS));
        assert_eq!(gates("app:", true).count(), slots.len());
        assert_eq!(
            (gates("{app}:", true).count(), gates("", false).count()),
            (1, 1)
        );
    }
}
