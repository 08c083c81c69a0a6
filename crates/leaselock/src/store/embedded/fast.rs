//! The scripts of nearly every call in Rust, for the states that nearly every call meets: free and nobody in
//! line, held, and a first waiter who is there.
//!
//! The Lua file is what decides; this says the same with a tenth of the work. Whatever is unusual is left to the Lua:
//! `None`, and nothing is touched. A property test runs both and holds answers, states and messages equal.

use super::commands::{self, Step};
use super::image::{Content, Member};
use super::sorted;
use crate::script::{Call, Tagged, Value};

/// As in `lua/line.lua` and `lua/fence.lua`.
const LINE_KEPT_MS: u64 = 60_000;
const FENCE_KEPT_MS: u64 = 604_800_000;
/// Lua counts in doubles, and numbers of more digits are not told apart there.
const DIGITS_MAX: usize = 15;
const TICKET_DIGITS: usize = 16;

/// The answer of the script, with what it wrote in the step.
pub(super) fn answer(call: &Call, step: &mut Step) -> Option<Tagged> {
    let (keys, args) = (call.keys.iter(), call.args.iter());
    match call.script.name {
        "mutex/acquire" => acquire(step, &Names::of(keys)?, &Wish::of(args)?),
        "mutex/release" => {
            let [token, used] = exactly(args)?;
            release(step, &Names::of(keys)?, token, counted(used)?)
        }
        "mutex/extend" => {
            let ([lock], [token, ttl_ms]) = (exactly(keys)?, exactly(args)?);
            extend(step, lock, token, plain(ttl_ms)?)
        }
        "client/announce" => {
            let ([record], [about, ttl_ms]) = (exactly(keys)?, exactly(args)?);
            announce(step, record, about, plain(ttl_ms)?)
        }
        _ => None,
    }
}

fn exactly<'a, const N: usize>(args: impl Iterator<Item = &'a str>) -> Option<[&'a str; N]> {
    let (mut all, mut count) = ([""; N], 0);
    for arg in args {
        *all.get_mut(count)? = arg;
        count += 1;
    }
    (count == N).then_some(all)
}

struct Names<'a> {
    lock: &'a str,
    line: &'a str,
    waiters: &'a str,
    fence: &'a str,
}

impl<'a> Names<'a> {
    fn of(keys: impl Iterator<Item = &'a str>) -> Option<Self> {
        let [lock, line, waiters, fence] = exactly(keys)?;
        Some(Names {
            lock,
            line,
            waiters,
            fence,
        })
    }
}

/// The arguments of `mutex/acquire`.
struct Wish<'a> {
    token: &'a str,
    ttl_ms: u64,
    passed_ms: u64,
    waits: bool,
    priority: i32,
    channel: &'a str,
    fencing: &'a str,
    range: u64,
}

impl<'a> Wish<'a> {
    fn of(args: impl Iterator<Item = &'a str>) -> Option<Self> {
        let [
            token,
            ttl_ms,
            passed_ms,
            waits,
            priority,
            channel,
            fencing,
            range,
        ] = exactly(args)?;
        Some(Wish {
            token,
            ttl_ms: plain(ttl_ms)?,
            passed_ms: plain(passed_ms)?,
            waits: waits == "1",
            priority: priority.parse().ok()?,
            channel,
            fencing: Some(fencing).filter(|fencing| matches!(*fencing, "0" | "1"))?,
            range: reserved(range)?,
        })
    }
}

/// A whole number above zero that means the same in Lua.
fn plain(text: &str) -> Option<u64> {
    let digits = (1..=DIGITS_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number > 0)
}

fn tagged(tag: &str, rest: impl IntoIterator<Item = Value>) -> Option<Tagged> {
    let tag = std::iter::once(text(tag));
    Tagged::from_value(Value::Array(tag.chain(rest).collect())).ok()
}

fn text(text: impl ToString) -> Value {
    Value::Bytes(text.to_string().into_bytes())
}

/// The value of a string key, which is not there in `Some(None)`.
fn value<'a>(step: &'a Step, key: &str) -> Option<Option<&'a [u8]>> {
    match step.image.find(key) {
        None => Some(None),
        Some(entry) => entry.text().map(Some),
    }
}

/// Those in line, in order. A key without members does not exist.
fn members<'a>(step: &'a Step, line: &str) -> Option<&'a [Member]> {
    match step.image.find(line).map(|entry| &entry.content) {
        None => Some(&[]),
        Some(Content::Sorted(members)) => Some(members),
        Some(_) => None,
    }
}

/// What a waiter's grant needs, as text.
fn entry<'a>(step: &'a Step, waiters: &str, token: &[u8]) -> Option<Option<&'a [u8]>> {
    match step.image.find(waiters).map(|entry| &entry.content) {
        None => Some(None),
        Some(Content::Hash(fields)) => Some(fields.get(token).map(Vec::as_slice)),
        Some(_) => None,
    }
}

/// A waiter's entry taken apart: `ttl_ms fencing looked_ms ticket priority range channel`.
struct Waiter<'a> {
    ttl_ms: u64,
    fences: bool,
    ticket: &'a str,
    range: u64,
    channel: &'a str,
}

impl<'a> Waiter<'a> {
    fn of(entry: &'a [u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(entry).ok()?.splitn(7, ' ');
        let mut next = || words.next();
        let (ttl_ms, fencing, looked_ms) = (plain(next()?)?, next()?, next()?);
        let (ticket, priority, range, channel) = (next()?, next()?, next()?, next()?);
        counted(looked_ms)?;
        counted(priority.strip_prefix('-').unwrap_or(priority))?;
        counted(ticket)?;
        (ticket.len() == TICKET_DIGITS && matches!(fencing, "0" | "1")).then_some(Waiter {
            ttl_ms,
            fences: fencing == "1",
            ticket,
            range: reserved(range)?,
            channel,
        })
    }
}

/// First and last number of the latest grant, zeros when there is none.
fn fences(step: &Step, fence: &str) -> Option<(u64, u64)> {
    let Some(found) = value(step, fence)? else {
        return Some((0, 0));
    };
    let (first, last) = std::str::from_utf8(found).ok()?.split_once(':')?;
    Some((counted(first)?, counted(last)?))
}

/// A number of up to 16 digits that a double can hold with the next one.
fn counted(text: &str) -> Option<u64> {
    const LARGEST: u64 = 1 << 53;
    let digits = (1..=16).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|number| digits && *number < LARGEST)
}

/// How many fences a grant reserves.
fn reserved(text: &str) -> Option<u64> {
    const MOST: u64 = 1 << 20;
    plain(text).filter(|range| *range <= MOST)
}

/// The first of so many numbers, or zero for a grant without.
fn mint(step: &mut Step, fence: &str, last: u64, range: u64, fences: bool) -> u64 {
    if !fences {
        return 0;
    }
    let first = step.now_us.max(last + 1);
    put_fences(step, fence, first, first + range - 1);
    first
}

fn put_fences(step: &mut Step, fence: &str, first: u64, last: u64) {
    let both = format!("{first}:{last}");
    commands::put(step, fence, both.as_bytes(), FENCE_KEPT_MS);
}

fn release(step: &mut Step, names: &Names<'_>, token: &str, used: u64) -> Option<Tagged> {
    let now = text(step.now_us);
    match value(step, names.lock)? {
        None => return tagged("expired", [now]),
        Some(held) if held != token.as_bytes() => return tagged("taken", [now]),
        Some(_) => {}
    }
    let (first, last) = fences(step, names.fence)?;
    let unused = first <= used && used < last;
    let last = if unused { used } else { last };
    // A grant with numbers of its own takes the unused ones.
    if !pass_on(step, names, last)? && unused {
        put_fences(step, names.fence, first, used);
    }
    tagged("released", [now])
}

/// The lock goes to the first in line, or is free when there is none. True when fences were minted.
fn pass_on(step: &mut Step, names: &Names<'_>, last_fence: u64) -> Option<bool> {
    let in_line = members(step, names.line)?;
    let Some(first) = in_line.first() else {
        step.image.remove(names.lock);
        return Some(false);
    };
    let (member, others) = (first.name.clone(), u8::from(in_line.len() > 1));
    let next = member.get(TICKET_DIGITS..)?;
    let waiter = entry(step, names.waiters, next)??.to_vec();
    let waiter = Waiter::of(&waiter)?;
    if waiter.channel.is_empty() || !step.surroundings.present(waiter.channel.as_bytes()) {
        return None; // who comes after it, is for the script to find
    }
    if others == 0 {
        step.image.remove(names.line);
        step.image.remove(names.waiters);
    } else {
        sorted::remove(&mut step.image, names.line, &member).ok()?;
        commands::hash_del(&mut step.image, names.waiters, next).ok()?;
    }
    commands::put(step, names.lock, next, waiter.ttl_ms);
    let Waiter { ttl_ms, range, .. } = waiter;
    let minted = mint(step, names.fence, last_fence, range, waiter.fences);
    let now_us = step.now_us;
    let mut message = format!("grant {minted} {range} {now_us} {ttl_ms} {others} ").into_bytes();
    message.extend_from_slice(next);
    let channel = waiter.channel.as_bytes().to_vec();
    step.outbox.push((channel, message));
    Some(waiter.fences)
}

fn extend(step: &mut Step, lock: &str, token: &str, ttl_ms: u64) -> Option<Tagged> {
    let now = text(step.now_us);
    match value(step, lock)? {
        None => return tagged("expired", [now]),
        Some(held) if held != token.as_bytes() => return tagged("taken", [now]),
        Some(_) => {}
    }
    let left_ms = lengthen(step, lock, ttl_ms);
    tagged("extended", [Value::Int(left_ms), now])
}

/// At least this long from now; what is left then.
fn lengthen(step: &mut Step, lock: &str, ttl_ms: u64) -> i64 {
    let left_ms = remaining_ms(step, lock);
    let ttl = i64::try_from(ttl_ms).unwrap_or(i64::MAX);
    if left_ms >= ttl {
        return left_ms;
    }
    commands::prolong(step, lock, ttl_ms);
    ttl
}

fn remaining_ms(step: &Step, lock: &str) -> i64 {
    commands::remaining_ms(step.image.find(lock), step.now_us)
}

fn acquire(step: &mut Step, names: &Names<'_>, wish: &Wish<'_>) -> Option<Tagged> {
    let now = text(step.now_us);
    let known = entry(step, names.waiters, wish.token.as_bytes())?.is_some();
    let length = members(step, names.line)?.len();
    let (first_fence, last_fence) = fences(step, names.fence)?;
    let fences = wish.fencing == "1";
    let Some(held) = value(step, names.lock)? else {
        if length > 0 || known {
            return None; // whose turn it is, is for the script to find
        }
        commands::put(step, names.lock, wish.token.as_bytes(), wish.ttl_ms);
        let minted = mint(step, names.fence, last_fence, 1, fences);
        return tagged("granted", [text(minted), text(1), now, text(0)]);
    };
    if held == wish.token.as_bytes() {
        let (fence, range) = match fences {
            true if first_fence == 0 => return None,
            true => (first_fence, (last_fence + 1).checked_sub(first_fence)?),
            false => (0, wish.range),
        };
        lengthen(step, names.lock, wish.ttl_ms);
        let others = text(u8::from(length > 0));
        return tagged("granted", [text(fence), text(range), now, others]);
    }
    let holder = text(client_in(held));
    if !wish.waits {
        return tagged(
            "busy",
            [Value::Int(remaining_ms(step, names.lock)), holder, now],
        );
    }
    let place = enqueue(step, names, wish)?;
    let left = Value::Int(remaining_ms(step, names.lock));
    tagged("waiting", [left, holder, now, Value::Int(place)])
}

/// In line, behind all of the same priority, or still at the place it had. The place counts from 1.
fn enqueue(step: &mut Step, names: &Names<'_>, wish: &Wish<'_>) -> Option<i64> {
    let score = f64::from(wish.priority.checked_neg()?);
    let ticket = match entry(step, names.waiters, wish.token.as_bytes())? {
        Some(entry) => Waiter::of(entry)?.ticket.to_owned(),
        None => {
            let behind = members(step, names.line)?
                .iter()
                .rev()
                .find(|member| member.score == score);
            let after = match behind {
                Some(member) => counted(std::str::from_utf8(member.name.get(..16)?).ok()?)? + 1,
                None => 0,
            };
            format!("{:016}", after.max(step.now_us))
        }
    };
    let Wish {
        token,
        passed_ms,
        fencing,
        priority,
        range,
        channel,
        ..
    } = wish;
    let looked_ms = step.now_us / 1000;
    let entry = format!("{passed_ms} {fencing} {looked_ms} {ticket} {priority} {range} {channel}");
    let member = format!("{ticket}{token}");
    let image = &mut step.image;
    commands::hash_set(image, names.waiters, token.as_bytes(), entry.as_bytes()).ok()?;
    sorted::add(image, names.line, score, member.as_bytes()).ok()?;
    commands::prolong(step, names.line, LINE_KEPT_MS);
    commands::prolong(step, names.waiters, LINE_KEPT_MS);
    let mut members = members(step, names.line)?.iter();
    let rank = members.position(|other| other.name == member.as_bytes())?;
    i64::try_from(rank + 1).ok()
}

fn announce(step: &mut Step, record: &str, about: &str, ttl_ms: u64) -> Option<Tagged> {
    if about.is_empty() {
        step.image.remove(record);
        return tagged("gone", []);
    }
    let left_ms = u64::try_from(remaining_ms(step, record)).unwrap_or(0);
    commands::put(step, record, about.as_bytes(), ttl_ms.max(left_ms));
    tagged("announced", [])
}

/// The client in a value that looks like one of our tokens, as `client_of` in `lua/prelude.lua` finds it.
fn client_in(value: &[u8]) -> &str {
    let plain = |part: &str| {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        !part.is_empty() && part.bytes().all(fits)
    };
    let parts = std::str::from_utf8(value)
        .ok()
        .filter(|text| text.len() == 31)
        .and_then(|text| text.split_once(['.', '~']));
    match parts {
        Some((secret, client)) if plain(secret) && plain(client) => client,
        _ => "",
    }
}

#[cfg(test)]
#[path = "fast_tests.rs"]
mod tests;
