//! Findings about several servers together. No I/O.

use std::time::Duration;

use super::facts::Facts;
use crate::base::{StoreError, rounded};
use crate::store::report::Finding;

/// Clocks further apart than this are not synchronised.
const SKEW_MAX_US: u64 = 1_000_000;

/// Returns the checks; `named` is how many servers there should be, `known` are those that replied.
pub(super) fn checks(known: &[Facts], named: usize) -> Vec<Finding> {
    let mut checks = vec![answering(known.len(), named)];
    checks.extend(skew(known));
    checks
}

fn answering(answered: usize, named: usize) -> Finding {
    let found = format!("{answered} of {named}");
    let advice = "locks go on, and the next failure may stop them: bring the others back";
    let advice = (answered != named).then_some(advice);
    Finding::advised("servers that answer", found, advice)
}

pub(super) fn silent(error: &StoreError) -> Finding {
    let advice = "start it, or see what keeps this machine from it";
    Finding::unfit("answer", error.to_string(), advice)
}

/// Returns how far the servers' clocks are apart; `None` when fewer than two are known.
pub(super) fn apart_us(known: &[Facts]) -> Option<u64> {
    let offsets: Vec<i64> = known.iter().filter_map(|facts| facts.offset_us).collect();
    if offsets.len() < 2 {
        return None;
    }
    let (first, last) = (offsets.iter().min()?, offsets.iter().max()?);
    Some(last.abs_diff(*first))
}

fn skew(known: &[Facts]) -> Option<Finding> {
    let apart = apart_us(known)?;
    let found = format!("{} apart at most", rounded(Duration::from_micros(apart)));
    let advice = "a lease that goes from one of them to another ends early or late by as much: \
                  run NTP on all of them";
    let advice = (apart > SKEW_MAX_US).then_some(advice);
    Some(Finding::advised("clocks of the servers", found, advice))
}
