//! The commands of scripts, on the image of one file. Each does what Redis does, as far as the scripts need; arguments are
//! read as Redis reads them, and errors are its own.

use std::ops::{Bound, RangeBounds};
use std::str::FromStr;

use super::packed::{Fields, Members, PackedMember};
use super::reply::{Reply, internal};
use super::step::Step;
use super::whitelist::WHITELIST;
use crate::base::{Result, StoreError};
use crate::script::keyspace::{Keyspace, StreamId};

/// Runs one command. The name comes first, in capitals, as the scripts write it.
pub(super) fn run(step: &mut Step, words: &[&[u8]]) -> Result<Reply> {
    let (name, args) = words
        .split_first()
        .ok_or_else(|| internal("ERR a command needs a name"))?;
    match (*name, args) {
        (b"TIME", []) => Ok(time(step.now_us)),
        // A folder has no slots, so all channels are of one kind.
        (b"PUBSUB", [b"NUMSUB" | b"SHARDNUMSUB", channels @ ..]) => Ok(receivers(step, channels)),
        (b"PUBLISH" | b"SPUBLISH", [channel, message]) => publish(step, channel, message),
        (b"MGET", [_, ..]) => {
            let values = declared_all(step, args)?.map(|key| step.get(key).ok().flatten());
            Ok(Reply::Array(values.map(Reply::or_nil).collect()))
        }
        (b"EXISTS", [_, ..]) => {
            let keys = declared_all(step, args)?;
            Ok(Reply::count(keys.filter(|key| step.exists(key)).count()))
        }
        (b"DEL", [_, ..]) if !step.reads_only => {
            let keys = declared_all(step, args)?;
            Ok(Reply::count(keys.filter(|key| step.delete(key)).count()))
        }
        (b"XINFO", [what, key]) => on_key(step, name, key, &[what]),
        (command, [key, rest @ ..]) => on_key(step, command, key, rest),
        _ => Err(unknown(name, args)),
    }
}

fn unknown(name: &[u8], args: &[&[u8]]) -> StoreError {
    let name = String::from_utf8_lossy(name);
    let what = if WHITELIST.split_whitespace().any(|known| known == name) {
        "another form of"
    } else {
        "no command"
    };
    let count = args.len();
    internal(format!(
        "ERR the embedded store has {what} {name} ({count} arguments)"
    ))
}

fn declared<'a>(step: &Step, key: &'a [u8]) -> Result<&'a str> {
    let key = std::str::from_utf8(key)
        .ok()
        .filter(|key| step.keys.iter().any(|declared| declared == key));
    key.ok_or_else(|| internal("ERR a script touched a key that is not among its KEYS"))
}

fn declared_all<'a>(
    step: &Step,
    keys: &[&'a [u8]],
) -> Result<impl Iterator<Item = &'a str> + use<'a>> {
    let keys: Result<Vec<_>, _> = keys.iter().map(|key| declared(step, key)).collect();
    Ok(keys?.into_iter())
}

fn on_key(step: &mut Step, name: &[u8], key: &[u8], args: &[&[u8]]) -> Result<Reply> {
    let key = declared(step, key)?;
    if let Some(reply) = read(step, name, key, args)? {
        return Ok(reply);
    }
    if step.reads_only {
        let command = String::from_utf8_lossy(name);
        return Err(internal(format!(
            "ERR {command} in a script that says it only reads"
        )));
    }
    write(step, name, key, args)?.ok_or_else(|| unknown(name, args))
}

/// Runs a command that only reads; `None` for any other.
fn read(step: &Step, command: &[u8], key: &str, args: &[&[u8]]) -> Result<Option<Reply>> {
    Ok(Some(match (command, args) {
        (b"GET", []) => Reply::or_nil(step.get(key)?),
        (b"STRLEN", []) => Reply::count(step.get(key)?.map_or(0, <[u8]>::len)),
        (b"TYPE", []) => {
            let entry = step.image.find(key);
            Reply::Status(entry.map_or("none", |entry| entry.content.kind()))
        }
        (b"PTTL", []) => Reply::Int(step.remaining_ms(key)),
        (b"HGET", [field]) => Reply::or_nil(step.hash_get(key, field)?),
        (b"HLEN", []) => Reply::count(step.fields(key)?.map_or(0, Fields::len)),
        (b"HMGET", [_, ..]) => {
            let fields = step.fields(key)?;
            let value = |field: &&[u8]| Reply::or_nil(fields.and_then(|fields| fields.get(field)));
            Reply::Array(args.iter().map(value).collect())
        }
        // A server has them in no order that a script may rely on.
        (b"HGETALL", []) => {
            let fields = step.fields(key)?.into_iter().flat_map(Fields::iter);
            let words = fields.flat_map(|(field, value)| [field, value]);
            Reply::Array(words.map(|word| Reply::Bytes(word.to_vec())).collect())
        }
        (b"ZCARD", []) => Reply::count(step.members(key)?.map_or(0, Members::len)),
        (b"ZRANK", [member]) => {
            let rank = step.members(key)?.and_then(|all| all.rank(member));
            rank.map_or(Reply::Nil, Reply::count)
        }
        (b"ZSCORE", [member]) => {
            let members = step.members(key)?;
            let score = members.and_then(|members| members.score(member));
            score.map_or(Reply::Nil, Reply::score)
        }
        (b"ZRANGE" | b"ZREVRANGE", [first, last] | [first, last, b"WITHSCORES"]) => {
            let positions = (number(first)?, number(last)?);
            let all = step.members(key)?;
            by_position(all, positions, command == b"ZREVRANGE", args.len() > 2)
        }
        (b"ZRANGEBYSCORE", [min, max, b"LIMIT", skip, count])
        | (b"ZREVRANGEBYSCORE", [max, min, b"LIMIT", skip, count]) => {
            let page = (number(skip)?, number(count)?);
            let scores = scores(min, max)?;
            let all = step.members(key)?;
            by_score(all, scores, page, command == b"ZREVRANGEBYSCORE")
        }
        (b"XINFO", [b"STREAM"]) => stream_info(step.stream_last(key)?)?,
        _ => return Ok(None),
    }))
}

/// Runs a command that writes; `None` for any other.
fn write(step: &mut Step, command: &[u8], key: &str, args: &[&[u8]]) -> Result<Option<Reply>> {
    Ok(Some(match (command, args) {
        (b"SET", [value, b"PX", ttl_ms]) => set(step, key, value, ttl_ms)?,
        (b"SET", [value, b"PX", ttl_ms, b"NX"]) => match step.exists(key) {
            true => Reply::Nil,
            false => set(step, key, value, ttl_ms)?,
        },
        (b"PEXPIRE", [ttl_ms]) => match u64::try_from(number::<i64>(ttl_ms)?) {
            Ok(ttl_ms @ 1..) => Reply::flag(step.expire(key, ttl_ms)),
            _ => Reply::flag(step.delete(key)),
        },
        (b"HSET", [_, ..]) if args.len().is_multiple_of(2) => {
            let set = |pair: &[&[u8]]| step.hash_set(key, pair[0], pair[1]);
            counted(args.chunks_exact(2), set)?
        }
        (b"HSETNX", [field, value]) => {
            let is_new = step.hash_get(key, field)?.is_none();
            Reply::flag(is_new && step.hash_set(key, field, value)?)
        }
        (b"HINCRBY", [field, value]) => increment(step, key, field, value)?,
        (b"HDEL", [_, ..]) => counted(args, |field| step.hash_delete(key, field))?,
        (b"ZADD", [_, _, ..]) if args.len().is_multiple_of(2) => {
            counted(args.chunks_exact(2), |pair| {
                let score = score(pair[0])?;
                step.sorted_add(key, score, pair[1])
            })?
        }
        (b"ZADD", [b"XX", new, member]) => {
            let new = score(new)?;
            let members = step.members(key)?;
            if members.is_some_and(|members| members.score(member).is_some()) {
                step.sorted_add(key, new, member)?;
            }
            Reply::Int(0)
        }
        (b"ZREM", [_, ..]) => counted(args, |member| step.sorted_remove(key, member))?,
        (b"XADD", [b"NOMKSTREAM", b"MAXLEN", b"0", id, _, _]) => stream_add(step, key, id, false)?,
        (b"XADD", [b"MAXLEN", b"0", id, _, _]) => stream_add(step, key, id, true)?,
        _ => return Ok(None),
    }))
}

fn set(step: &mut Step, key: &str, value: &[u8], ttl_ms: &[u8]) -> Result<Reply> {
    let ttl_ms: u64 = number(ttl_ms)?;
    if ttl_ms == 0 {
        return Err(internal("ERR invalid expire time in 'set' command"));
    }
    step.set(key, value, ttl_ms);
    Ok(Reply::Status("OK"))
}

fn increment(step: &mut Step, key: &str, field: &[u8], value: &[u8]) -> Result<Reply> {
    let no_integer = |_| internal("ERR hash value is not an integer");
    let before = step.hash_get(key, field)?;
    let before: i64 = before.map_or(Ok(0), number).map_err(no_integer)?;
    let sum = before.checked_add(number(value)?);
    let sum = sum.ok_or_else(|| internal("ERR increment or decrement would overflow"))?;
    step.hash_set(key, field, sum.to_string().as_bytes())?;
    Ok(Reply::Int(sum))
}

fn time(now_us: u64) -> Reply {
    let part = |number: u64| Reply::Bytes(number.to_string().into_bytes());
    Reply::Array(vec![part(now_us / 1_000_000), part(now_us % 1_000_000)])
}

fn receivers(step: &Step, channels: &[&[u8]]) -> Reply {
    let count = |channel: &&[u8]| {
        [
            Reply::Bytes(channel.to_vec()),
            Reply::flag(step.surroundings.present(channel)),
        ]
    };
    Reply::Array(channels.iter().flat_map(count).collect())
}

fn publish(step: &mut Step, channel: &[u8], message: &[u8]) -> Result<Reply> {
    if step.reads_only {
        return Err(internal("ERR PUBLISH in a script that says it only reads"));
    }
    let present = step.surroundings.present(channel);
    if present {
        step.outbox.push((channel.to_vec(), message.to_vec())); // a listener that it does not reach now never gets it
    }
    Ok(Reply::flag(present))
}

/// Returns the members from one position to another, each counted from 0 on or from -1 down at the end.
fn by_position(
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
fn by_score(
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

// Streams, in the forms that leave them empty: only the last id is kept.

/// `XINFO STREAM key`, of a stream with this last id.
fn stream_info(last: Option<StreamId>) -> Result<Reply> {
    let last = last.ok_or_else(|| internal("ERR no such key"))?;
    // The first fields of a server's reply, in its order.
    let fields = [
        ("length", Reply::Int(0)),
        ("radix-tree-keys", Reply::Int(0)),
        ("radix-tree-nodes", Reply::Int(1)),
        ("last-generated-id", shown_id(last)),
    ];
    let words = fields.map(|(name, value)| [Reply::Bytes(name.into()), value]);
    Ok(Reply::Array(words.into_iter().flatten().collect()))
}

/// `XADD key [NOMKSTREAM] MAXLEN 0 id field value`.
fn stream_add(step: &mut Step, key: &str, id: &[u8], creates: bool) -> Result<Reply> {
    let id = wanted_id(id)?;
    let last = step.stream_last(key)?;
    if last.is_none() && !creates {
        return Ok(Reply::Nil);
    }
    match step.stream_add(key, id)? {
        Some(added) => Ok(shown_id(added)),
        None => Err(internal(match last {
            Some((u64::MAX, u64::MAX)) => {
                "ERR The stream has exhausted the last possible ID, unable to add more items"
            }
            _ => "ERR The ID specified in XADD is equal or smaller than the target stream top item",
        })),
    }
}

/// Reads the id to add; `None` for `*`.
fn wanted_id(word: &[u8]) -> Result<Option<StreamId>> {
    if word == b"*" {
        return Ok(None);
    }
    let mut parts = word.splitn(2, |byte| *byte == b'-').map(parsed);
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(0), Some(0)) => Err("ERR The ID specified in XADD must be greater than 0-0"),
        (Some(ms), Some(seq)) => Ok(Some((ms, seq))),
        _ => Err("ERR Invalid stream ID specified as stream command argument"),
    }
    .map_err(internal)
}

fn shown_id((ms, seq): StreamId) -> Reply {
    Reply::Bytes(format!("{ms}-{seq}").into_bytes())
}

/// Scores from one bound to another.
type Scores = (Bound<f64>, Bound<f64>);

/// Returns for how many of the items a command did what it is for.
fn counted<T>(
    items: impl IntoIterator<Item = T>,
    mut done: impl FnMut(T) -> Result<bool>,
) -> Result<Reply> {
    let mut count = 0;
    for item in items {
        count += usize::from(done(item)?);
    }
    Ok(Reply::count(count))
}

fn number<T: FromStr>(word: &[u8]) -> Result<T> {
    let refused = "ERR value is not an integer or out of range";
    parsed(word).ok_or_else(|| internal(refused))
}

fn score(word: &[u8]) -> Result<f64> {
    double(word).ok_or_else(|| internal("ERR value is not a valid float"))
}

/// Reads two bounds; one behind `(` does not belong to what it bounds.
fn scores(min: &[u8], max: &[u8]) -> Result<Scores> {
    let bound = |word: &[u8]| match word.strip_prefix(b"(") {
        Some(word) => double(word).map(Bound::Excluded),
        None => double(word).map(Bound::Included),
    };
    let both = bound(min).zip(bound(max));
    both.ok_or_else(|| internal("ERR min or max is not a float"))
}

fn parsed<T: FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Reads a number that may be infinite in words, but not by its digits.
fn double(word: &[u8]) -> Option<f64> {
    let number: f64 = parsed(word)?;
    let in_words = word.iter().any(|letter| b"iI".contains(letter));
    (!number.is_nan() && (number.is_finite() || in_words)).then_some(number)
}
