//! The commands on sorted sets.

use super::image::{Content, Image};
use super::packed::{Member, Members};
use super::reply::{Failure, Reply};
use super::values::{content_or, number};

pub(super) fn read(
    image: &Image,
    command: &[u8],
    key: &str,
    args: &[&[u8]],
) -> Result<Reply, Failure> {
    let none = Members::default();
    let members = match image.find(key).map(|entry| &entry.content) {
        None => &none,
        Some(Content::Sorted(members)) => members,
        Some(Content::Text(_) | Content::Hash(_)) => return Err(Failure::wrong_type()),
    };
    match (command, args) {
        (b"ZCARD", []) => Ok(Reply::count(members.len())),
        (b"ZRANK", [name]) => Ok(members.rank(name).map_or(Reply::Nil, Reply::count)),
        (b"ZRANGE", [first, last]) => {
            let (skipped, count) = range(members.len(), number(first)?, number(last)?);
            Ok(names(members.iter().skip(skipped).take(count)))
        }
        (b"ZREVRANGEBYSCORE", [max, min, limit, skip, count]) if limit == b"LIMIT" => {
            let (max, min): (f64, f64) = (number(max)?, number(min)?);
            let (skip, count): (usize, usize) = (number(skip)?, number(count)?);
            let within = |member: &Member<'_>| member.score >= min && member.score <= max;
            let within: Vec<_> = members.iter().filter(within).collect();
            Ok(names(within.into_iter().rev().skip(skip).take(count)))
        }
        _ => Err(unknown(command)),
    }
}

pub(super) fn write(
    image: &mut Image,
    command: &[u8],
    key: &str,
    args: &[&[u8]],
) -> Result<Reply, Failure> {
    match (command, args) {
        (b"ZADD", [score, name]) => add(image, key, number(score)?, name),
        (b"ZREM", [name]) => remove(image, key, name),
        _ => Err(unknown(command)),
    }
}

fn unknown(command: &[u8]) -> Failure {
    let command = String::from_utf8_lossy(command);
    Failure::internal(format!(
        "ERR the embedded store knows {command} in another form only"
    ))
}

fn names<'a>(members: impl Iterator<Item = Member<'a>>) -> Reply {
    Reply::Array(
        members
            .map(|member| Reply::Bytes(member.name.to_vec()))
            .collect(),
    )
}

/// Converts positions into how many to skip and to take: from 0 on, or from -1 down at the end.
fn range(length: usize, first: i64, last: i64) -> (usize, usize) {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let place = |at: i64| {
        if at < 0 {
            (length + at).max(0)
        } else {
            at.min(length)
        }
    };
    let end = if last < -length {
        0
    } else {
        (place(last) + 1).min(length)
    };
    let (start, end) = (usize::try_from(place(first)), usize::try_from(end));
    match (start, end) {
        (Ok(start), Ok(end)) => (start, end.saturating_sub(start)),
        _ => (0, 0),
    }
}

pub(super) fn add(image: &mut Image, key: &str, score: f64, name: &[u8]) -> Result<Reply, Failure> {
    let Content::Sorted(members) = content_or(image, key, Content::Sorted(Members::default()))
    else {
        return Err(Failure::wrong_type());
    };
    Ok(Reply::Int(i64::from(members.insert(score, name))))
}

pub(super) fn remove(image: &mut Image, key: &str, name: &[u8]) -> Result<Reply, Failure> {
    let Some(entry) = image.find_mut(key) else {
        return Ok(Reply::Int(0));
    };
    let Content::Sorted(members) = &mut entry.content else {
        return Err(Failure::wrong_type());
    };
    let (removed, empty) = (members.remove(name), members.is_empty());
    image.changed |= removed;
    if empty {
        image.remove(key);
    }
    Ok(Reply::Int(i64::from(removed)))
}
