//! Values in the image of one file: strings with their expiry, and hashes.

use super::image::{Content, Entry, Image, Life};
use super::packed::Fields;
use super::reply::{Failure, Reply};
use super::step::Step;
use crate::base::token;

pub(super) fn text<'a>(image: &'a Image, key: &str) -> Result<Option<&'a [u8]>, Failure> {
    match image.find(key).map(|entry| &entry.content) {
        None => Ok(None),
        Some(Content::Text(text)) => Ok(Some(text)),
        Some(Content::Hash(_) | Content::Sorted(_)) => Err(Failure::wrong_type()),
    }
}

pub(super) fn kind(image: &Image, key: &str) -> &'static str {
    match image.find(key).map(|entry| &entry.content) {
        None => "none",
        Some(Content::Text(_)) => "string",
        Some(Content::Hash(_)) => "hash",
        Some(Content::Sorted(_)) => "zset",
    }
}

/// A lease that only a job's session keeps alive has no known end; a second makes waiters poll again soon.
const SESSION_HELD_MS: u64 = 1000;

/// Returns the remaining time, rounded down, so that no client expects more.
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

/// Runs `SET key value KEEPTTL`.
pub(super) fn keep_end(image: &mut Image, key: &str, value: &[u8]) {
    *content_or(image, key, Content::Text(Vec::new())) = Content::Text(value.to_vec());
}

/// Runs `PEXPIRE key ttl_ms`; false when the key does not exist.
pub(super) fn prolong(step: &mut Step, key: &str, ttl_ms: u64) -> bool {
    let now_us = step.now_us;
    let Some(entry) = step.image.find_mut(key) else {
        return false;
    };
    entry.ends_us = Some(end_us(now_us, ttl_ms));
    step.image.changed = true;
    true
}

pub(super) fn fields<'a>(image: &'a Image, key: &str) -> Result<Option<&'a Fields>, Failure> {
    match image.find(key).map(|entry| &entry.content) {
        None => Ok(None),
        Some(Content::Hash(fields)) => Ok(Some(fields)),
        Some(Content::Text(_) | Content::Sorted(_)) => Err(Failure::wrong_type()),
    }
}

/// Returns the content under a key, created without an expiry when it does not exist.
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
