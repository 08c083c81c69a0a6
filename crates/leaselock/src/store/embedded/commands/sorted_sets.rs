//! Commands of sorted sets.

use std::ops::RangeBounds;

use super::super::packed::{Members, PackedMember};
use super::super::reply::Reply;
use super::super::step::Step;
use super::arguments::{self, Command, MaybeReply, Scores, counted, number, typed};
use crate::base::StoreError;

pub(super) fn read(step: &Step, (command, key, args): Command<'_>) -> MaybeReply {
    Ok(Some(match (command, args) {
        (b"ZCARD", []) => Reply::count(typed(step.members(key))?.map_or(0, Members::len)),
        (b"ZRANK", [member]) => {
            let rank = typed(step.sorted_rank(key, member))?;
            rank.map_or(Reply::Nil, Reply::count)
        }
        (b"ZSCORE", [member]) => {
            let members = typed(step.members(key))?;
            let score = members.and_then(|members| members.score(member));
            score.map_or(Reply::Nil, Reply::score)
        }
        (b"ZRANGE" | b"ZREVRANGE", [first, last] | [first, last, b"WITHSCORES"]) => {
            let positions = (number(first)?, number(last)?);
            let reverse = command == b"ZREVRANGE";
            let found = by_position(typed(step.members(key))?, positions, reverse);
            listed(found, args.len() > 2)
        }
        (b"ZRANGEBYSCORE", [min, max, limit, skip, count]) if limit == b"LIMIT" => {
            let page = (number(skip)?, number(count)?);
            by_score(step, key, arguments::scores(min, max)?, page, false)?
        }
        (b"ZREVRANGEBYSCORE", [max, min, limit, skip, count]) if limit == b"LIMIT" => {
            let page = (number(skip)?, number(count)?);
            by_score(step, key, arguments::scores(min, max)?, page, true)?
        }
        _ => return Ok(None),
    }))
}

pub(super) fn write(step: &mut Step, (command, key, args): Command<'_>) -> MaybeReply {
    Ok(Some(match (command, args) {
        (b"ZADD", [_, _, ..]) if args.len().is_multiple_of(2) => {
            counted(args.chunks_exact(2), |pair| {
                let score = arguments::score(pair[0])?;
                typed(step.sorted_add(key, score, pair[1]))
            })?
        }
        (b"ZADD", [known, score, member]) if known == b"XX" => {
            let score = arguments::score(score)?;
            if typed(step.sorted_rank(key, member))?.is_some() {
                typed(step.sorted_add(key, score, member))?;
            }
            Reply::Int(0)
        }
        (b"ZREM", [_, ..]) => counted(args, |member| typed(step.sorted_remove(key, member)))?,
        _ => return Ok(None),
    }))
}

/// Returns the members from one position to another, each counted from 0 on or from -1 down at the end.
fn by_position(
    members: Option<&Members>,
    (first, last): (i64, i64),
    reverse: bool,
) -> Vec<PackedMember<'_>> {
    let Some(members) = members else {
        return Vec::new();
    };
    let length = i64::try_from(members.len()).unwrap_or(i64::MAX);
    let place = |at: i64| if at < 0 { length + at } else { at };
    let (start, end) = (place(first).max(0), place(last).saturating_add(1));
    let end = end.clamp(0, length);
    let skipped = if reverse { length - end } else { start };
    let [skipped, count] = [skipped, end - start].map(|at| usize::try_from(at).unwrap_or(0));
    let mut found: Vec<_> = members.iter().skip(skipped).take(count).collect();
    if reverse {
        found.reverse();
    }
    found
}

/// Returns members of these scores: how many to skip, and how many at most.
fn by_score(
    step: &Step,
    key: &str,
    scores: Scores,
    (skip, count): (i64, i64),
    reverse: bool,
) -> Result<Reply, StoreError> {
    let all = typed(step.members(key))?
        .into_iter()
        .flat_map(Members::iter);
    let within = all.filter(|member| scores.contains(&member.score));
    let mut within: Vec<_> = within.collect();
    if reverse {
        within.reverse();
    }
    // Below zero, the first finds nothing and the second is no limit.
    let [skip, count] = [skip, count].map(|most| usize::try_from(most).unwrap_or(usize::MAX));
    Ok(listed(within.into_iter().skip(skip).take(count), false))
}

fn listed<'a>(members: impl IntoIterator<Item = PackedMember<'a>>, with_scores: bool) -> Reply {
    let words = members.into_iter().flat_map(|member| {
        let name = Reply::Bytes(member.name.to_vec());
        [Some(name), with_scores.then(|| Reply::score(member.score))]
    });
    Reply::Array(words.flatten().collect())
}
