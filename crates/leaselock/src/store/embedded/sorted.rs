//! The commands on sorted sets.

use super::commands::{content_or, number};
use super::image::{Content, Image, Member};
use super::reply::{Failure, Reply};

pub(super) fn read(
    image: &Image,
    command: &[u8],
    key: &str,
    args: &[&[u8]],
) -> Result<Reply, Failure> {
    let members = match image.find(key).map(|entry| &entry.content) {
        None => &[][..],
        Some(Content::Sorted(members)) => members,
        Some(Content::Text(_) | Content::Hash(_)) => return Err(Failure::wrong_type()),
    };
    match (command, args) {
        (b"ZCARD", []) => Ok(Reply::count(members.len())),
        (b"ZRANK", [name]) => Ok(members
            .iter()
            .position(|member| member.name == *name)
            .map_or(Reply::Nil, Reply::count)),
        (b"ZRANGE", [first, last]) => Ok(names(range(members, number(first)?, number(last)?))),
        (b"ZREVRANGEBYSCORE", [max, min, limit, skip, count]) if limit == b"LIMIT" => {
            let (max, min): (f64, f64) = (number(max)?, number(min)?);
            let (skip, count): (usize, usize) = (number(skip)?, number(count)?);
            let within = members
                .iter()
                .rev()
                .filter(|member| member.score >= min && member.score <= max);
            Ok(names(within.skip(skip).take(count)))
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

fn names<'a>(members: impl IntoIterator<Item = &'a Member>) -> Reply {
    Reply::Array(
        members
            .into_iter()
            .map(|member| Reply::Bytes(member.name.clone()))
            .collect(),
    )
}

/// Places from 0 on, or from -1 down when counted from the end.
fn range(members: &[Member], first: i64, last: i64) -> &[Member] {
    let length = i64::try_from(members.len()).unwrap_or(i64::MAX);
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
        (Ok(start), Ok(end)) if start < end => &members[start..end],
        _ => &[],
    }
}

pub(super) fn add(image: &mut Image, key: &str, score: f64, name: &[u8]) -> Result<Reply, Failure> {
    let Content::Sorted(members) = content_or(image, key, Content::Sorted(Vec::new())) else {
        return Err(Failure::wrong_type());
    };
    let known = members.iter().position(|member| member.name == name);
    if let Some(place) = known {
        members.remove(place);
    }
    let before = |member: &Member| (member.score, member.name.as_slice()) < (score, name);
    let place = members.partition_point(before);
    members.insert(
        place,
        Member {
            score,
            name: name.to_vec(),
        },
    );
    Ok(Reply::Int(i64::from(known.is_none())))
}

pub(super) fn remove(image: &mut Image, key: &str, name: &[u8]) -> Result<Reply, Failure> {
    let Some(entry) = image.find_mut(key) else {
        return Ok(Reply::Int(0));
    };
    let Content::Sorted(members) = &mut entry.content else {
        return Err(Failure::wrong_type());
    };
    let before = members.len();
    members.retain(|member| member.name != name);
    let (removed, empty) = (members.len() != before, members.is_empty());
    image.changed |= removed;
    if empty {
        image.remove(key);
    }
    Ok(Reply::Int(i64::from(removed)))
}
