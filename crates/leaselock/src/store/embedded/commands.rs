//! The commands of the whitelist, on the image of one file. Each does what Redis does, as far as the scripts need.

use std::ops::RangeInclusive;

use super::packed::{Member, Members};
use super::reply::{Failure, Reply};
use super::step::Step;
use super::whitelist::WHITELIST;
use crate::script::keyspace::Keyspace;

/// Runs one command. The name comes first, in capitals, as the scripts write it.
pub(super) fn run(step: &mut Step, words: &[&[u8]]) -> Result<Reply, Failure> {
    let (name, args) = words
        .split_first()
        .ok_or_else(|| Failure::internal("ERR a command needs a name"))?;
    match (*name, args) {
        (b"TIME", []) => Ok(time(step.now_us)),
        // A folder has no slots, so all channels are of one kind.
        (b"PUBSUB", [what, channels @ ..]) if what == b"NUMSUB" || what == b"SHARDNUMSUB" => {
            Ok(receivers(step, channels))
        }
        (b"PUBLISH" | b"SPUBLISH", [channel, message]) => publish(step, channel, message),
        (b"MGET", [_, ..]) => {
            let values = declared_all(step, args)?.map(|key| step.get(key).flatten());
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
        (command, [key, rest @ ..]) => on_key(step, command, key, rest),
        _ => Err(unknown(name, args)),
    }
}

fn unknown(name: &[u8], args: &[&[u8]]) -> Failure {
    let name = String::from_utf8_lossy(name);
    let what = if WHITELIST.contains(&&*name) {
        "another form of"
    } else {
        "no command"
    };
    let count = args.len();
    Failure::internal(format!(
        "ERR the embedded store has {what} {name} ({count} arguments)"
    ))
}

fn declared<'a>(step: &Step, key: &'a [u8]) -> Result<&'a str, Failure> {
    let key = std::str::from_utf8(key)
        .ok()
        .filter(|key| step.keys.iter().any(|declared| declared == key));
    key.ok_or_else(|| Failure::internal("ERR a script touched a key that is not among its KEYS"))
}

fn declared_all<'a>(
    step: &Step,
    keys: &[&'a [u8]],
) -> Result<impl Iterator<Item = &'a str> + use<'a>, Failure> {
    let keys: Result<Vec<_>, _> = keys.iter().map(|key| declared(step, key)).collect();
    Ok(keys?.into_iter())
}

fn on_key(step: &mut Step, command: &[u8], key: &[u8], args: &[&[u8]]) -> Result<Reply, Failure> {
    let key = declared(step, key)?;
    match (command, args) {
        (b"GET", []) => Ok(Reply::or_nil(typed(step.get(key))?)),
        (b"STRLEN", []) => Ok(Reply::count(typed(step.get(key))?.map_or(0, <[u8]>::len))),
        (b"TYPE", []) => {
            let entry = step.image.find(key);
            Ok(Reply::Status(
                entry.map_or("none", |entry| entry.content.kind()),
            ))
        }
        (b"PTTL", []) => Ok(Reply::Int(step.remaining_ms(key))),
        (b"HGET", [field]) => Ok(Reply::or_nil(typed(step.hash_get(key, field))?)),
        (b"HLEN", []) => Ok(Reply::count(typed(step.hash_len(key))?)),
        (b"ZCARD", []) => Ok(Reply::count(typed(step.sorted_len(key))?)),
        (b"ZRANK", [member]) => {
            let rank = typed(step.sorted_rank(key, member))?;
            Ok(rank.map_or(Reply::Nil, Reply::count))
        }
        (b"ZRANGE", [first, last]) => sorted_range(step, key, number(first)?, number(last)?),
        (b"ZREVRANGEBYSCORE", [max, min, limit, skip, count]) if limit == b"LIMIT" => {
            let within = number(min)?..=number(max)?;
            sorted_last_within(step, key, within, number(skip)?, number(count)?)
        }
        _ if step.reads_only => {
            let command = String::from_utf8_lossy(command);
            Err(Failure::internal(format!(
                "ERR {command} in a script that says it only reads"
            )))
        }
        (b"SET", [value, px, ttl_ms]) if px == b"PX" => set(step, key, value, ttl_ms),
        (b"SET", [value, px, ttl_ms, nx]) if px == b"PX" && nx == b"NX" => match step.exists(key) {
            true => Ok(Reply::Nil),
            false => set(step, key, value, ttl_ms),
        },
        (b"SET", [value, keep]) if keep == b"KEEPTTL" => {
            step.set_keep_ttl(key, value);
            Ok(Reply::Status("OK"))
        }
        (b"SET", [value, keep, get]) if keep == b"KEEPTTL" && get == b"GET" => {
            let before = Reply::or_nil(typed(step.get(key))?);
            step.set_keep_ttl(key, value);
            Ok(before)
        }
        (b"PEXPIRE", [ttl_ms]) => expire(step, key, ttl_ms),
        (b"HSET", [field, value]) => Ok(Reply::flag(typed(step.hash_set(key, field, value))?)),
        (b"HSETNX", [field, value]) => {
            let is_new = typed(step.hash_get(key, field))?.is_none();
            Ok(Reply::flag(
                is_new && typed(step.hash_set(key, field, value))?,
            ))
        }
        (b"HDEL", [field]) => Ok(Reply::flag(typed(step.hash_delete(key, field))?)),
        (b"ZADD", [score, member]) => {
            let score = number(score)?;
            Ok(Reply::flag(typed(step.sorted_add(key, score, member))?))
        }
        (b"ZREM", [member]) => Ok(Reply::flag(typed(step.sorted_remove(key, member))?)),
        _ => Err(unknown(command, args)),
    }
}

/// Unwraps what a value of another type does not have.
fn typed<T>(found: Option<T>) -> Result<T, Failure> {
    found.ok_or_else(Failure::wrong_type)
}

fn number<T: std::str::FromStr>(word: &[u8]) -> Result<T, Failure> {
    let parsed = std::str::from_utf8(word)
        .ok()
        .and_then(|word| word.parse().ok());
    parsed.ok_or_else(|| Failure::internal("ERR value is not an integer or out of range"))
}

/// Returns the members from one position to another, each counted from 0 on or from -1 down at the end.
fn sorted_range(step: &Step, key: &str, first: i64, last: i64) -> Result<Reply, Failure> {
    let Some(members) = typed(step.members(key))? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let length = i64::try_from(members.len()).unwrap_or(i64::MAX);
    let place = |at: i64| if at < 0 { length + at } else { at };
    let (start, end) = (place(first).max(0), place(last).saturating_add(1).max(0));
    let positions = [start, end].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
    let [start, end] = positions;
    Ok(names(
        members.iter().skip(start).take(end.saturating_sub(start)),
    ))
}

/// Returns members of these scores, the last ones first.
fn sorted_last_within(
    step: &Step,
    key: &str,
    scores: RangeInclusive<f64>,
    skip: usize,
    count: usize,
) -> Result<Reply, Failure> {
    let all = typed(step.members(key))?
        .into_iter()
        .flat_map(Members::iter);
    let within: Vec<_> = all
        .filter(|member| scores.contains(&member.score))
        .collect();
    Ok(names(within.into_iter().rev().skip(skip).take(count)))
}

fn names<'a>(members: impl Iterator<Item = Member<'a>>) -> Reply {
    Reply::Array(
        members
            .map(|member| Reply::Bytes(member.name.to_vec()))
            .collect(),
    )
}

fn time(now_us: u64) -> Reply {
    let part = |number: u64| Reply::Bytes(number.to_string().into_bytes());
    Reply::Array(vec![part(now_us / 1_000_000), part(now_us % 1_000_000)])
}

fn receivers(step: &Step, channels: &[&[u8]]) -> Reply {
    let count = |channel: &&[u8]| {
        [
            Reply::Bytes(channel.to_vec()),
            Reply::flag(step.has_listener(channel)),
        ]
    };
    Reply::Array(channels.iter().flat_map(count).collect())
}

fn publish(step: &mut Step, channel: &[u8], message: &[u8]) -> Result<Reply, Failure> {
    if step.reads_only {
        return Err(Failure::internal(
            "ERR PUBLISH in a script that says it only reads",
        ));
    }
    let present = step.has_listener(channel);
    if present {
        step.publish(channel, message.to_vec()); // a listener that it does not reach now never gets it
    }
    Ok(Reply::flag(present))
}

fn set(step: &mut Step, key: &str, value: &[u8], ttl_ms: &[u8]) -> Result<Reply, Failure> {
    let ttl_ms: u64 = number(ttl_ms)?;
    if ttl_ms == 0 {
        return Err(Failure::internal(
            "ERR invalid expire time in 'set' command",
        ));
    }
    step.set(key, value, ttl_ms);
    Ok(Reply::Status("OK"))
}

fn expire(step: &mut Step, key: &str, ttl_ms: &[u8]) -> Result<Reply, Failure> {
    let ttl_ms: i64 = number(ttl_ms)?;
    match u64::try_from(ttl_ms) {
        Ok(ttl_ms @ 1..) => Ok(Reply::flag(step.expire(key, ttl_ms))),
        _ => Ok(Reply::flag(step.delete(key))),
    }
}
