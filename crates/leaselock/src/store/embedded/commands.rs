//! The commands of the whitelist, on the image of one file. Each does what Redis does, as far as the scripts need.

use super::packed::Fields;
use super::reply::{Failure, Reply};
use super::sorted;
use super::step::Step;
use super::values::{
    fields, hash_del, hash_set, keep_end, kind, number, prolong, put, remaining_ms, text,
};
use super::whitelist::WHITELIST;

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
        (b"MGET", keys @ [_, ..]) => Ok(Reply::Array(each(step, keys, value_or_nil)?)),
        (b"EXISTS", keys @ [_, ..]) => count(step, keys, is_there),
        (b"DEL", keys @ [_, _, ..]) => {
            count(step, keys, |step, key| run(step, &[b"DEL".as_slice(), key]))
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

/// Runs a command of several keys on each of them.
fn each(
    step: &mut Step,
    keys: &[&[u8]],
    one: impl Fn(&mut Step, &[u8]) -> Result<Reply, Failure>,
) -> Result<Vec<Reply>, Failure> {
    keys.iter().map(|key| one(step, key)).collect()
}

/// Counts the keys that answer 1.
fn count(
    step: &mut Step,
    keys: &[&[u8]],
    one: impl Fn(&mut Step, &[u8]) -> Result<Reply, Failure>,
) -> Result<Reply, Failure> {
    let answers = each(step, keys, one)?;
    let ones = answers
        .iter()
        .filter(|answer| matches!(answer, Reply::Int(1)));
    Ok(Reply::count(ones.count()))
}

fn is_there(step: &mut Step, key: &[u8]) -> Result<Reply, Failure> {
    let found = step.image.find(declared(step, key)?).is_some();
    Ok(Reply::Int(i64::from(found)))
}

/// Returns as `GET` does, except that a value of another type counts as nil.
fn value_or_nil(step: &mut Step, key: &[u8]) -> Result<Reply, Failure> {
    let key = declared(step, key)?;
    Ok(Reply::or_nil(text(&step.image, key).ok().flatten()))
}

fn declared<'a>(step: &Step, key: &'a [u8]) -> Result<&'a str, Failure> {
    let key = std::str::from_utf8(key)
        .ok()
        .filter(|key| step.keys.iter().any(|declared| declared == key));
    key.ok_or_else(|| Failure::internal("ERR a script touched a key that is not among its KEYS"))
}

fn on_key(step: &mut Step, command: &[u8], key: &[u8], args: &[&[u8]]) -> Result<Reply, Failure> {
    let key = declared(step, key)?;
    let image = &mut step.image;
    match (command, args) {
        (b"GET", []) => Ok(Reply::or_nil(text(image, key)?)),
        (b"STRLEN", []) => Ok(Reply::count(text(image, key)?.map_or(0, <[u8]>::len))),
        (b"TYPE", []) => Ok(Reply::Status(kind(image, key))),
        (b"PTTL", []) => Ok(Reply::Int(remaining_ms(image.find(key), step.now_us))),
        (b"HGET", [field]) => Ok(Reply::or_nil(
            fields(image, key)?.and_then(|fields| fields.get(field)),
        )),
        (b"HLEN", []) => Ok(Reply::count(fields(image, key)?.map_or(0, Fields::len))),
        (b"ZCARD" | b"ZRANK" | b"ZRANGE" | b"ZREVRANGEBYSCORE", _) => {
            sorted::read(image, command, key, args)
        }
        _ if step.reads_only => {
            let command = String::from_utf8_lossy(command);
            Err(Failure::internal(format!(
                "ERR {command} in a script that says it only reads"
            )))
        }
        (b"SET", [value, px, ttl_ms]) if px == b"PX" => set(step, key, value, ttl_ms),
        (b"SET", [value, px, ttl_ms, nx]) if px == b"PX" && nx == b"NX" => {
            if image.find(key).is_some() {
                return Ok(Reply::or_nil(None));
            }
            set(step, key, value, ttl_ms)
        }
        (b"SET", [value, keep]) if keep == b"KEEPTTL" => {
            keep_end(image, key, value);
            Ok(Reply::Status("OK"))
        }
        (b"SET", [value, keep, get]) if keep == b"KEEPTTL" && get == b"GET" => {
            let before = Reply::or_nil(text(image, key)?);
            keep_end(image, key, value);
            Ok(before)
        }
        (b"DEL", []) => Ok(Reply::Int(i64::from(image.remove(key)))),
        (b"PEXPIRE", [ttl_ms]) => expire(step, key, ttl_ms),
        (b"HSET", [field, value]) => hash_set(image, key, field, value),
        (b"HSETNX", [field, value]) => match fields(image, key)? {
            Some(fields) if fields.get(field).is_some() => Ok(Reply::Int(0)),
            _ => hash_set(image, key, field, value),
        },
        (b"HDEL", [field]) => hash_del(image, key, field),
        (b"ZADD" | b"ZREM", _) => sorted::write(image, command, key, args),
        _ => Err(unknown(command, args)),
    }
}

fn time(now_us: u64) -> Reply {
    let part = |number: u64| Reply::Bytes(number.to_string().into_bytes());
    Reply::Array(vec![part(now_us / 1_000_000), part(now_us % 1_000_000)])
}

fn receivers(step: &Step, channels: &[&[u8]]) -> Reply {
    let count = |channel: &&[u8]| {
        [
            Reply::Bytes(channel.to_vec()),
            Reply::Int(i64::from(step.surroundings.present(channel))),
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
    let present = step.surroundings.present(channel);
    if present {
        step.outbox.push((channel.to_vec(), message.to_vec())); // a listener that it does not reach now never gets it
    }
    Ok(Reply::Int(i64::from(present)))
}

fn set(step: &mut Step, key: &str, value: &[u8], ttl_ms: &[u8]) -> Result<Reply, Failure> {
    let ttl_ms: u64 = number(ttl_ms)?;
    if ttl_ms == 0 {
        return Err(Failure::internal(
            "ERR invalid expire time in 'set' command",
        ));
    }
    put(step, key, value, ttl_ms);
    Ok(Reply::Status("OK"))
}

fn expire(step: &mut Step, key: &str, ttl_ms: &[u8]) -> Result<Reply, Failure> {
    let ttl_ms: i64 = number(ttl_ms)?;
    match u64::try_from(ttl_ms) {
        Ok(ttl_ms @ 1..) => Ok(Reply::Int(i64::from(prolong(step, key, ttl_ms)))),
        _ => Ok(Reply::Int(i64::from(step.image.remove(key)))),
    }
}
