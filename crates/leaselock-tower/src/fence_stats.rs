//! What the layer of late holders counts: each check of a sequencer, by what came of it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use leaselock_fence::{Admission, FenceRefused};

const NAME: &str = "leaselock_fence_checks_total";
const HELP: &str = "Fence checks, admitted and refused.";
/// All of them are there from the beginning: an increase of a series that appears as 1 is none for who reads it.
const OUTCOMES: [&str; 5] = ["raised", "known", "stale", "other_owner", "other_name"];

#[derive(Debug, Default)]
pub(crate) struct Checks([AtomicU64; OUTCOMES.len()]);

impl Checks {
    pub(crate) fn add<T>(&self, checked: &Result<(T, Admission), FenceRefused>) {
        let outcome = match checked {
            Ok((_, Admission::Known)) => "known",
            Ok(_) => "raised",
            Err(FenceRefused::Stale { .. }) => "stale",
            Err(FenceRefused::OtherOwner { .. }) => "other_owner",
            Err(_) => "other_name",
        };
        let mut each = OUTCOMES.iter().zip(&self.0);
        if let Some((_, count)) = each.find(|(one, _)| **one == outcome) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn stats(&self) -> FenceStats {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        FenceStats {
            checks: OUTCOMES.into_iter().zip(counts).collect(),
        }
    }
}

/// What a layer has counted since it was made; see [`FenceLayer::stats`](crate::FenceLayer::stats).
///
/// Counters only grow. `stats += other` adds those of another layer, for a process that has several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FenceStats {
    /// Checks of a request's sequencer: admitted with a fencing token that is new (`raised`) or `known`, or refused:
    /// `stale`, `other_owner` (another grant with the same number) or `other_name`.
    ///
    /// A request without a sequencer, with a malformed one, or whose client goes away while it waits, is not counted.
    pub checks: BTreeMap<&'static str, u64>,
}

impl FenceStats {
    /// Writes them in the text format of Prometheus, version 0.0.4, behind what `out` has, such as that of a client of
    /// `leaselock`.
    ///
    /// A text may name each metric once: with several layers, add their statistics first.
    ///
    /// # Examples
    /// ```
    /// # let layer = leaselock_tower::FenceLayer::new(|_: &http::request::Parts| None);
    /// let mut text = String::new();
    /// layer.stats().prometheus(&mut text); // for `text/plain; version=0.0.4`
    /// assert!(text.contains("leaselock_fence_checks_total{outcome=\"stale\"} 0"));
    /// ```
    pub fn prometheus(&self, out: &mut String) {
        out.push_str(&format!("# HELP {NAME} {HELP}\n# TYPE {NAME} counter\n"));
        for (outcome, count) in &self.checks {
            // A string takes whatever is written.
            writeln!(out, "{NAME}{{outcome=\"{outcome}\"}} {count}").ok();
        }
    }
}

impl AddAssign for FenceStats {
    fn add_assign(&mut self, other: FenceStats) {
        for (outcome, count) in other.checks {
            *self.checks.entry(outcome).or_default() += count;
        }
    }
}
