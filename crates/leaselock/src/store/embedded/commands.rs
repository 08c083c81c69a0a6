//! The commands of the whitelist, on the image of one file. Each does what Redis does, as far as the scripts ask.

use std::sync::Arc;

use super::image::{Content, Entry, Image, Life};
use super::packed::Fields;
use super::reply::{Failure, Reply};
use super::sorted;
use super::whitelist::WHITELIST;
use crate::base::token;

/// What commands ask about the world outside of the image.
pub(super) trait Surroundings: Send + Sync {
    /// Somebody listens on this channel.
    fn present(&self, channel: &[u8]) -> bool;
    /// This client has a session, so what it holds ends with it.
    fn has_session(&self, client: &str) -> bool;
}

/// One run of a script: what it works on and what it leaves to be done.
pub(super) struct Step {
    pub(super) image: Image,
    /// The store's time, read once.
    pub(super) now_us: u64,
    /// What a script may touch.
    pub(super) keys: Vec<String>,
    pub(super) reads_only: bool,
    pub(super) surroundings: Arc<dyn Surroundings>,
    /// Channel and message, to be sent once the image is committed.
    pub(super) outbox: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Runs one command. The name comes first, in capitals, as the scripts write it.
pub(super) fn run(step: &mut Step, words: &[&[u8]]) -> Result<Reply, Failure> {
    let (name, args) = words
        .split_first()
        .ok_or_else(|| Failure::internal("ERR a command needs a name"))?;
    match (*name, args) {
        (b"TIME", []) => Ok(time(step.now_us)),
        // A folder has no slots, so channels are all alike.
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

/// A command of several keys is the same command on each.
fn each(
    step: &mut Step,
    keys: &[&[u8]],
    one: impl Fn(&mut Step, &[u8]) -> Result<Reply, Failure>,
) -> Result<Vec<Reply>, Failure> {
    keys.iter().map(|key| one(step, key)).collect()
}

/// How many of them answer 1.
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

/// As `GET`, but what is no string counts as nothing.
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
        step.outbox.push((channel.to_vec(), message.to_vec())); // whom it does not reach, it never will
    }
    Ok(Reply::Int(i64::from(present)))
}

fn text<'a>(image: &'a Image, key: &str) -> Result<Option<&'a [u8]>, Failure> {
    match image.find(key).map(|entry| &entry.content) {
        None => Ok(None),
        Some(Content::Text(text)) => Ok(Some(text)),
        Some(Content::Hash(_) | Content::Sorted(_)) => Err(Failure::wrong_type()),
    }
}

fn kind(image: &Image, key: &str) -> &'static str {
    match image.find(key).map(|entry| &entry.content) {
        None => "none",
        Some(Content::Text(_)) => "string",
        Some(Content::Hash(_)) => "hash",
        Some(Content::Sorted(_)) => "zset",
    }
}

/// A lease that only a job's session keeps alive has no known end; a second makes waiters look again soon.
const SESSION_HELD_MS: u64 = 1000;

/// Rounded down, so that nobody counts on more than there is.
pub(super) fn remaining_ms(entry: Option<&Entry>, now_us: u64) -> i64 {
    let Some(entry) = entry else { return -2 };
    let left = |ends_us: u64| ends_us.saturating_sub(now_us) / 1000;
    let ms = match (entry.life, entry.ends_us) {
        (Life::Session { until_us }, _) => until_us.map_or(SESSION_HELD_MS, |until_us| {
            left(until_us).min(SESSION_HELD_MS)
        }),
        (_, Some(ends_us)) => left(ends_us),
        (_, None) => return -1,
    };
    i64::try_from(ms).unwrap_or(i64::MAX)
}

pub(super) fn number<T: std::str::FromStr>(word: &[u8]) -> Result<T, Failure> {
    let parsed = std::str::from_utf8(word)
        .ok()
        .and_then(|word| word.parse().ok());
    parsed.ok_or_else(|| Failure::internal("ERR value is not an integer or out of range"))
}

fn end_us(now_us: u64, ttl_ms: u64) -> u64 {
    now_us.saturating_add(ttl_ms.saturating_mul(1000))
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

/// `SET key value PX ttl_ms`.
pub(super) fn put(step: &mut Step, key: &str, value: &[u8], ttl_ms: u64) {
    let bound = token::client_of(value).is_some_and(|client| step.surroundings.has_session(client));
    let (ends_us, life) = (Some(end_us(step.now_us, ttl_ms)), Life::Ttl);
    let content = Content::Text(value.to_vec());
    step.image.changed = true;
    if let Some(old) = step.image.find_mut(key) {
        (old.ends_us, old.bound, old.life, old.content) = (ends_us, bound, life, content);
        return;
    }
    step.image.entries.push(Entry {
        key: key.to_owned(),
        ends_us,
        bound,
        life,
        content,
    });
}

/// `SET key value KEEPTTL`.
pub(super) fn keep_end(image: &mut Image, key: &str, value: &[u8]) {
    *content_or(image, key, Content::Text(Vec::new())) = Content::Text(value.to_vec());
}

fn expire(step: &mut Step, key: &str, ttl_ms: &[u8]) -> Result<Reply, Failure> {
    let ttl_ms: i64 = number(ttl_ms)?;
    match u64::try_from(ttl_ms) {
        Ok(ttl_ms @ 1..) => Ok(Reply::Int(i64::from(prolong(step, key, ttl_ms)))),
        _ => Ok(Reply::Int(i64::from(step.image.remove(key)))),
    }
}

/// `PEXPIRE key ttl_ms`; false when it is not there.
pub(super) fn prolong(step: &mut Step, key: &str, ttl_ms: u64) -> bool {
    let now_us = step.now_us;
    let Some(entry) = step.image.find_mut(key) else {
        return false;
    };
    entry.ends_us = Some(end_us(now_us, ttl_ms));
    step.image.changed = true;
    true
}

fn fields<'a>(image: &'a Image, key: &str) -> Result<Option<&'a Fields>, Failure> {
    match image.find(key).map(|entry| &entry.content) {
        None => Ok(None),
        Some(Content::Hash(fields)) => Ok(Some(fields)),
        Some(Content::Text(_) | Content::Sorted(_)) => Err(Failure::wrong_type()),
    }
}

/// The content under a key, which is created without an end when it is not there.
pub(super) fn content_or<'a>(image: &'a mut Image, key: &str, empty: Content) -> &'a mut Content {
    image.changed = true;
    let place = image
        .entries
        .iter()
        .position(|entry| entry.key == key)
        .unwrap_or_else(|| {
            let key = key.to_owned();
            image.entries.push(Entry {
                key,
                ends_us: None,
                bound: false,
                life: Life::Ttl,
                content: empty,
            });
            image.entries.len() - 1
        });
    &mut image.entries[place].content
}

pub(super) fn hash_set(
    image: &mut Image,
    key: &str,
    field: &[u8],
    value: &[u8],
) -> Result<Reply, Failure> {
    match content_or(image, key, Content::Hash(Fields::default())) {
        Content::Hash(fields) => Ok(Reply::Int(i64::from(fields.insert(field, value)))),
        Content::Text(_) | Content::Sorted(_) => Err(Failure::wrong_type()),
    }
}

pub(super) fn hash_del(image: &mut Image, key: &str, field: &[u8]) -> Result<Reply, Failure> {
    let Some(entry) = image.find_mut(key) else {
        return Ok(Reply::Int(0));
    };
    let Content::Hash(fields) = &mut entry.content else {
        return Err(Failure::wrong_type());
    };
    let was_there = fields.remove(field);
    let empty = fields.is_empty();
    image.changed |= was_there;
    if empty {
        image.remove(key);
    }
    Ok(Reply::Int(i64::from(was_there)))
}
