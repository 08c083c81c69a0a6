//! Ranges of sorted sets.

use std::ops::RangeBounds;

use super::super::packed::{Members, PackedMember};
use super::super::reply::Reply;
use super::arguments::Scores;

/// Returns the members from one position to another, each counted from 0 on or from -1 down at the end.
pub(super) fn by_position(
    members: Option<&Members>,
    (first, last): (i64, i64),
    reverse: bool,
    with_scores: bool,
) -> Reply {
    let length = i64::try_from(members.map_or(0, Members::len)).unwrap_or(i64::MAX);
    let place = |at: i64| if at < 0 { length + at } else { at };
    let (start, end) = (place(first).max(0), place(last).saturating_add(1));
    let end = end.clamp(0, length);
    let skipped = if reverse { length - end } else { start };
    let [skipped, count] = [skipped, end - start].map(|at| usize::try_from(at).unwrap_or(0));
    let all = members.into_iter().flat_map(Members::iter);
    let mut found: Vec<_> = all.skip(skipped).take(count).collect();
    if reverse {
        found.reverse();
    }
    listed(found, with_scores)
}

/// Returns members of these scores: how many to skip, and how many at most.
pub(super) fn by_score(
    members: Option<&Members>,
    scores: Scores,
    (skip, count): (i64, i64),
    reverse: bool,
) -> Reply {
    let all = members.into_iter().flat_map(Members::iter);
    let within = all.filter(|member| scores.contains(&member.score));
    let mut within: Vec<_> = within.collect();
    if reverse {
        within.reverse();
    }
    // Below zero, the first finds nothing and the second is no limit.
    let [skip, count] = [skip, count].map(|most| usize::try_from(most).unwrap_or(usize::MAX));
    listed(within.into_iter().skip(skip).take(count), false)
}

fn listed<'a>(members: impl IntoIterator<Item = PackedMember<'a>>, with_scores: bool) -> Reply {
    let words = members.into_iter().flat_map(|member| {
        let name = Reply::Bytes(member.name.to_vec());
        [Some(name), with_scores.then(|| Reply::score(member.score))]
    });
    Reply::Array(words.flatten().collect())
}
