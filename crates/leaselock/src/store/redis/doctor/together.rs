//! What concerns several servers together. No I/O.

use std::collections::BTreeSet;

use super::facts::Facts;
use super::shape::Shape;
use crate::base::error::StoreError;
use crate::store::report::{Check, Fit};

/// Clocks further apart than this are set by nobody.
const SKEW_MAX_US: u64 = 1_000_000;

/// `named` is how many servers there should be; `known` are those that answered.
pub(super) fn checks(known: &[Facts], named: usize, shape: Shape) -> Vec<Check> {
    let votes = (shape == Shape::Quorum).then(|| [Some(number(named)), twins(known)]);
    votes
        .into_iter()
        .flatten()
        .chain([Some(answering(known.len(), named, shape)), skew(known)])
        .flatten()
        .collect()
}

/// A server that did not answer, in place of what it would have said.
pub(super) fn silent(error: &StoreError) -> Check {
    let advice = "start it, or see what keeps this machine from it";
    Check::new("answer", error.to_string(), Fit::Unfit, Some(advice))
}

/// How many of `servers` make a majority.
pub(super) fn majority(servers: usize) -> usize {
    servers / 2 + 1
}

fn number(named: usize) -> Check {
    let found = format!("{named}, a majority is {}", majority(named));
    if named % 2 == 1 && named >= 3 {
        return Check::new("number of servers", found, Fit::Fit, None);
    }
    if named < 3 {
        let advice = "a vote needs three servers or five: with fewer no failure of one is outlived";
        return Check::new("number of servers", found, Fit::Unfit, Some(advice));
    }
    let advice = format!(
        "the last one adds a server that can fail and no failure that is outlived: use {} or {}",
        named - 1,
        named + 1
    );
    Check::new("number of servers", found, Fit::Warn, Some(&advice))
}

/// One server under two addresses would have two votes.
fn twins(known: &[Facts]) -> Option<Check> {
    let ids: Vec<&str> = known.iter().filter_map(Facts::run_id).collect();
    if ids.is_empty() {
        return None;
    }
    let different = ids.iter().collect::<BTreeSet<_>>().len();
    if different == ids.len() {
        let found = format!("{different}, each another");
        return Some(Check::new("servers", found, Fit::Fit, None));
    }
    let found = format!("{} addresses of {different} servers", ids.len());
    let advice = "one server has one vote: name each server once";
    Some(Check::new("servers", found, Fit::Unfit, Some(advice)))
}

fn answering(answered: usize, named: usize, shape: Shape) -> Check {
    let found = format!("{answered} of {named}");
    let needed = if shape == Shape::Quorum {
        majority(named)
    } else {
        1
    };
    if answered == named {
        Check::new("servers that answer", found, Fit::Fit, None)
    } else if answered >= needed {
        let advice = "locks go on, and the next failure may stop them: bring the others back";
        Check::new("servers that answer", found, Fit::Warn, Some(advice))
    } else {
        let advice = "no majority answers, so nothing is granted";
        Check::new("servers that answer", found, Fit::Unfit, Some(advice))
    }
}

/// How far the clocks of the servers are apart; `None` when fewer than two are known.
pub(super) fn apart_us(known: &[Facts]) -> Option<u64> {
    let offsets: Vec<i64> = known.iter().filter_map(|facts| facts.offset_us).collect();
    if offsets.len() < 2 {
        return None;
    }
    let (first, last) = (offsets.iter().min()?, offsets.iter().max()?);
    Some(last.abs_diff(*first))
}

fn skew(known: &[Facts]) -> Option<Check> {
    let apart = apart_us(known)?;
    let found = format!("{} ms apart at most", apart / 1000);
    if apart <= SKEW_MAX_US {
        return Some(Check::new("clocks of the servers", found, Fit::Fit, None));
    }
    let advice = "a lease that goes from one of them to another ends early or late by as much: \
                  run NTP on all of them";
    Some(Check::new(
        "clocks of the servers",
        found,
        Fit::Warn,
        Some(advice),
    ))
}
