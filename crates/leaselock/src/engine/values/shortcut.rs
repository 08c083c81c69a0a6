//! The heads of the mutex's scripts in Rust, for the stores of one machine, where a call of Lua costs more than its work.
//!
//! A property test runs shortcut and script, and compares answers, states and messages.

use crate::base::{fence, token};
use crate::script::keyspace::Keyspace;
use crate::script::{Answer, Parameters, Value};

/// As in `lua/fence.lua`.
const FENCE_KEPT_MS: u64 = 93_600_000;
/// Lua counts in doubles, which do not distinguish numbers of more digits.
const DIGITS_MAX: usize = 15;

/// `mutex/acquire` of a free lock.
pub(crate) fn acquire(parameters: &Parameters, keyspace: &mut dyn Keyspace) -> Option<Answer> {
    let [lock, queue, _, fence] = exactly(parameters.keys())?;
    let [token, ttl_ms, _] = exactly(parameters.args())?;
    let ttl_ms = plain(ttl_ms)?;
    if keyspace.exists(lock) || keyspace.exists(queue) {
        return None;
    }
    let answer = if token.contains('.') {
        let text_of = |(ms, count)| format!("{ms}-{count}");
        let now_us = keyspace.now_us();
        let last = keyspace.stream_last(fence).ok()?;
        if let Some(last) = last {
            fence::of_id(&text_of(last)).filter(|last| last.get() % 1000 < 999)?;
        }
        // A new one begins behind all that a lost one may have granted.
        let first = last.is_none().then_some((now_us / 1000 + 2, now_us % 1000));
        let id = text_of(keyspace.stream_add(fence, first).ok()??);
        keyspace.expire(fence, FENCE_KEPT_MS);
        tagged("fenced", [text(id)])
    } else {
        tagged("unfenced", [])
    };
    keyspace.set(lock, token.as_bytes(), ttl_ms);
    answer
}

/// `mutex/release` without a waiter.
pub(crate) fn release(parameters: &Parameters, keyspace: &mut dyn Keyspace) -> Option<Answer> {
    let [lock, queue, _, _] = exactly(parameters.keys())?;
    let [token] = exactly(parameters.args())?;
    match keyspace.get(lock).ok()? {
        None => return tagged("expired", []),
        Some(held) if held != token.as_bytes() => return tagged("taken", []),
        Some(_) => {}
    }
    if keyspace.exists(queue) {
        return None;
    }
    keyspace.delete(lock);
    tagged("released", [])
}

/// `mutex/inspect` of a lock that one client of ours holds, with nothing but a fence beside it.
pub(crate) fn inspect(parameters: &Parameters, keyspace: &mut dyn Keyspace) -> Option<Answer> {
    let [lock, queue, fence, note, usage, leader, once, cron] = exactly(parameters.keys())?;
    let beside = [queue, note, usage, leader, once, cron];
    let held = keyspace.get(lock).ok()??;
    let is_alone = !beside.iter().any(|key| keyspace.exists(key));
    token::client_of(held).filter(|_| is_alone)?;
    let (ms, count) = keyspace.stream_last(fence).ok()?.unwrap_or_default();
    let last = fence::of_id(&format!("{ms}-{count}"))?;
    let last = text(last.get() * u64::from(token::is_fenced(held)));
    let (queue, none) = (Value::Array(vec![Value::Int(0)]), Value::Array(Vec::new()));
    let (now, why, kind) = (text(keyspace.now_us()), text(""), text(""));
    let (held, rest_ms) = (Value::Bytes(held.to_vec()), keyspace.remaining_ms(lock));
    let rest = Value::Int(rest_ms);
    let seen = [now, queue, none.clone(), held, rest, last, why, kind, none];
    tagged("held", seen)
}

/// Returns the keys or arguments if there are exactly so many.
fn exactly<'a, const N: usize>(words: impl Iterator<Item = &'a str>) -> Option<[&'a str; N]> {
    let (mut all, mut count) = ([""; N], 0);
    for word in words {
        *all.get_mut(count)? = word;
        count += 1;
    }
    (count == N).then_some(all)
}

/// Parses a whole number above zero that means the same in Lua.
fn plain(text: &str) -> Option<u64> {
    let digits = text.len() <= DIGITS_MAX && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number > 0)
}

fn tagged(tag: &str, rest: impl IntoIterator<Item = Value>) -> Option<Answer> {
    let tag = std::iter::once(text(tag));
    Answer::from_value(Value::Array(tag.chain(rest).collect())).ok()
}

fn text(text: impl ToString) -> Value {
    Value::Bytes(text.to_string().into_bytes())
}
