//! Combining the replies of a quorum's nodes to inspect and break. Pure.

use leaselock_fence::Fence;

use super::views::{Break, Broke, Inspect, Inspected, InspectedState, SeenHold};
use crate::engine::values::LockMode;
use crate::quorum::tally::{TallyVerdict, Votes, counted};

counted! {
    Inspect<'_> => inspected,
    Break<'_> => broke,
}

pub(crate) fn broke(votes: &Votes<Broke>) -> TallyVerdict<Broke> {
    let is_broken = |answer: &Broke| matches!(answer, Broke::Broken { .. });
    let answers = || votes.answers().map(|(_, answer)| answer);
    // A holder has the votes of a majority, and keeps them if so many nodes have failed.
    let all_said = votes.silent() == 0 && votes.absent().count() < votes.needed();
    if votes.is_majority(is_broken) || all_said && votes.count(is_broken) > 0 {
        return most_often(answers().filter(|answer| is_broken(answer)));
    }
    if !votes.prevents(|answer| !is_broken(answer)) {
        return TallyVerdict::Open;
    }
    if votes.silent() > 0 && votes.count(is_broken) > 0 {
        return TallyVerdict::Open; // the caller learns what was broken
    }
    most_often(answers())
}

/// Returns what a majority holds; free as soon as no client can have a majority.
pub(crate) fn inspected(votes: &Votes<Inspected>) -> TallyVerdict<Inspected> {
    let answers = || votes.answers().map(|(_, seen)| &seen.state);
    let decided = |state: InspectedState| {
        let damaged = damaged(votes);
        TallyVerdict::Decided(Inspected {
            damaged,
            ..state.into()
        })
    };
    for state in answers() {
        let same = |other: &Inspected| is_same(state, &other.state);
        if !matches!(state, InspectedState::Free) && votes.is_majority(same) {
            // A node may hold the lock under a fence that it did not accept: of another lease, or none.
            let numbered =
                |seen: &Inspected| same(seen) && fence_of(&seen.state) == fence_of(state);
            if votes.silent() > 0 && !votes.is_majority(numbered) {
                continue;
            }
            let alike = answers().filter(|other| is_same(state, other));
            return decided(together(alike.collect(), votes.needed()));
        }
    }
    let most = answers().map(|state| votes.count(|other| is_same(state, &other.state)));
    if votes.is_majority(|_| true) && most.max().unwrap_or(0) + votes.silent() < votes.needed()
        || votes.is_majority(|seen| matches!(seen.state, InspectedState::Free))
        || votes.silent() == 0 && votes.is_majority(|_| true)
    {
        return decided(InspectedState::Free);
    }
    TallyVerdict::Open
}

/// Lists what any node has found, without repeats.
fn damaged(votes: &Votes<Inspected>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for found in votes.answers().flat_map(|(_, seen)| &seen.damaged) {
        if !all.contains(found) {
            all.push(found.clone());
        }
    }
    all
}

fn fence_of(state: &InspectedState) -> Option<Fence> {
    match state {
        InspectedState::Held(hold) => hold.fence,
        InspectedState::Free | InspectedState::Shared { .. } | InspectedState::Other { .. } => None,
    }
}

fn is_same(one: &InspectedState, other: &InspectedState) -> bool {
    use InspectedState as S;
    match (one, other) {
        (S::Free, S::Free) => true,
        (S::Held(hold), S::Held(other)) => hold.value == other.value,
        (S::Shared { .. }, S::Shared { .. }) => true, // of clients of single nodes: a quorum has no such locks
        (S::Other { kind }, S::Other { kind: other }) => kind == other,
        _ => false,
    }
}

/// Combines equal states of nodes, which differ in the remaining time.
///
/// The lock is held as long as a majority holds it. The fencing token is the one that most of them have.
fn together(alike: Vec<&InspectedState>, needed: usize) -> InspectedState {
    let mut holds = Vec::new();
    for state in alike {
        match state {
            InspectedState::Held(hold) => holds.push(hold),
            InspectedState::Shared { .. } | InspectedState::Other { .. } => return state.clone(),
            InspectedState::Free => {}
        }
    }
    let mut ends: Vec<u64> = holds
        .iter()
        .map(|hold| hold.pttl_ms.unwrap_or(u64::MAX))
        .collect();
    ends.sort_unstable_by(|one, other| other.cmp(one));
    let fences = || holds.iter().map(|hold| hold.fence);
    let often = |fence: &_| fences().filter(|other| other == fence).count();
    let notes = holds.iter().map(|hold| &hold.why);
    let value = holds.last().map(|hold| hold.value.clone());
    InspectedState::Held(SeenHold {
        value: value.unwrap_or_default(),
        mode: LockMode::Exclusive,
        pttl_ms: ends.get(needed - 1).copied().filter(|end| *end != u64::MAX),
        fence: fences()
            .max_by_key(|fence| (often(fence), fence.is_some()))
            .flatten(),
        why: notes
            .into_iter()
            .find(|why| !why.is_empty())
            .cloned()
            .unwrap_or_default(),
        kind: None, // those with a record beside the lock have no quorum
    })
}

fn most_often<'a, R: Clone + PartialEq + 'a>(
    answers: impl Iterator<Item = &'a R>,
) -> TallyVerdict<R> {
    let all: Vec<&R> = answers.collect();
    let often = |one: &&R| all.iter().filter(|other| **other == *one).count();
    match all.iter().copied().max_by_key(often) {
        Some(answer) => TallyVerdict::Decided(answer.clone()),
        None => TallyVerdict::Open,
    }
}

#[cfg(test)]
mod tests;
