//! The scripts of nearly every call in Rust, for the states that nearly every call meets: free and nobody in
//! line, held, and a first waiter who is there.
//!
//! The Lua file is what decides; this says the same with a tenth of the work. Whatever is unusual is left to the Lua:
//! `None`, and nothing is touched. A property test runs both and holds answers, states and messages equal.

#[cfg(test)]
mod tests;

use super::commands;
use super::commands::Step;
use super::image::Content;
use super::packed::Members;
use super::sorted;
use crate::base::fence::Fence;
use crate::script::{Answer, Call, Value};

/// As in `lua/line.lua` and `lua/fence.lua`.
const LINE_KEPT_MS: u64 = 60_000;
const FENCE_KEPT_MS: u64 = 614_800_000;
/// Lua counts in doubles, and numbers of more digits are not told apart there.
const DIGITS_MAX: usize = 15;
/// Of server time in microseconds, and so of tickets.
const TIME_DIGITS: usize = 16;
/// Where a member's parts begin: the token behind the ticket, and what was asked for behind the time of the look.
const TOKEN_AT: usize = 16;
const LOOKED_AT: usize = 47;
const WISH_AT: usize = 64;

/// The answer of the script, with what it wrote in the step.
pub(super) fn answer(call: &Call, step: &mut Step) -> Option<Answer> {
    let (keys, args) = (call.all_keys(), call.all_args());
    match call.script.name {
        "mutex/acquire" => acquire(step, &Names::of(keys)?, &QueueRequest::of(args)?),
        "mutex/release" => {
            let mut args = args;
            let (token, used) = (args.next()?, args.next());
            if args.next().is_some() {
                return None;
            }
            release(step, &Names::of(keys)?, token, used)
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
struct QueueRequest<'a> {
    token: &'a str,
    ttl_ms: u64,
    fences: bool,
    /// What a place in line is to have; `None` for whoever does not get in line.
    wait: Option<(&'a str, Waiter<'a>)>,
}

impl<'a> QueueRequest<'a> {
    fn of(args: impl Iterator<Item = &'a str>) -> Option<Self> {
        let [token, ttl_ms, wait] = exactly(args)?;
        if token.len() != LOOKED_AT - TOKEN_AT {
            return None;
        }
        let wait = match wait {
            "" => None,
            wait => Some((wait, Waiter::of(wait)?)),
        };
        Some(QueueRequest {
            token,
            ttl_ms: plain(ttl_ms)?,
            fences: fences(token.as_bytes()),
            wait,
        })
    }
}

/// Whether a grant of this token has a fencing token.
fn fences(token: &[u8]) -> bool {
    token.get(22) == Some(&b'.')
}

/// A whole number above zero that means the same in Lua.
fn plain(text: &str) -> Option<u64> {
    let digits = (1..=DIGITS_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number > 0)
}

fn tagged(tag: &str, rest: impl IntoIterator<Item = Value>) -> Option<Answer> {
    let tag = std::iter::once(text(tag));
    Answer::from_value(Value::Array(tag.chain(rest).collect())).ok()
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
fn members<'a>(step: &'a Step, line: &str) -> Option<Option<&'a Members>> {
    match step.image.find(line).map(|entry| &entry.content) {
        None => Some(None),
        Some(Content::Sorted(members)) => Some(Some(members)),
        Some(_) => None,
    }
}

/// What a waiter's grant needs, as text.
fn entry<'a>(step: &'a Step, waiters: &str, token: &[u8]) -> Option<Option<&'a [u8]>> {
    match step.image.find(waiters).map(|entry| &entry.content) {
        None => Some(None),
        Some(Content::Hash(fields)) => Some(fields.get(token)),
        Some(_) => None,
    }
}

/// What a waiter asked for, taken apart: `priority passed_ms range channel`.
struct Waiter<'a> {
    priority: &'a str,
    passed_ms: &'a str,
    range: &'a str,
    channel: &'a str,
}

impl<'a> Waiter<'a> {
    fn of(wait: &'a str) -> Option<Self> {
        let mut words = wait.splitn(4, ' ');
        let mut next = || words.next();
        let (priority, passed_ms, range, channel) = (next()?, next()?, next()?, next()?);
        counted(priority.strip_prefix('-').unwrap_or(priority))?;
        plain(passed_ms)?;
        reserved(range)?;
        Some(Waiter {
            priority,
            passed_ms,
            range,
            channel,
        })
    }

    /// As a member of the line shows it behind the time of its latest look.
    fn in_member(member: &'a [u8]) -> Option<Self> {
        digits(member.get(LOOKED_AT..WISH_AT - 1)?)?;
        let wish = std::str::from_utf8(member.get(WISH_AT - 1..)?).ok()?;
        Self::of(wish.strip_prefix(' ')?)
    }

    fn score(&self) -> Option<f64> {
        let priority: i32 = self.priority.parse().ok()?;
        // The text of it is negated in Lua, and one that is written oddly means something else there.
        (priority.to_string() == self.priority)
            .then_some(priority)?
            .checked_neg()
            .map(f64::from)
    }
}

/// A time in microseconds as it stands in a member.
fn digits(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    counted(text).filter(|_| text.len() == TIME_DIGITS)
}

/// First and last number of the latest grant, zeros when there is none.
fn latest(step: &Step, fence: &str) -> Option<(u64, u64)> {
    let Some(found) = value(step, fence)? else {
        return Some((0, 0));
    };
    let (first, last) = std::str::from_utf8(found).ok()?.split_once(':')?;
    Fence::of_a_grant(counted(first)?, counted(last)?)
}

/// A number of up to 16 digits that a double can hold with the next one.
fn counted(text: &str) -> Option<u64> {
    let digits = (1..=16).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|number| digits && *number < 1 << 53)
}

/// How many fences a grant reserves.
fn reserved(text: &str) -> Option<u64> {
    plain(text).filter(|range| *range <= Fence::RANGE_MAX)
}

/// A plain grant of `range` numbers from the present time on.
struct Mint {
    last: u64,
    /// Its key is to be kept longer.
    renews: bool,
}

impl Mint {
    /// `None` when the clock has not passed all numbers up to the last one that was used.
    fn plain(step: &Step, fence: &str, range: u64, used: Option<u64>) -> Option<Self> {
        let now_us = step.now_us;
        let renews = match value(step, fence)? {
            None => true,
            Some(found) => {
                let both = (digits(found.get(..16)?)?, digits(found.get(17..)?)?);
                let (first, last) = Fence::of_a_grant(both.0, both.1)?;
                let of_it = |used| has_16_digits(used) && first <= used && used < last;
                let given_back = used.is_some_and(of_it);
                let passed = if given_back { used? } else { last };
                if found[16] != b':' || (last >= now_us && passed >= now_us) {
                    return None;
                }
                first / 10_000_000_000 != now_us / 10_000_000_000
            }
        };
        let last = now_us + range - 1;
        Some(Mint { last, renews })
    }

    fn write(&self, step: &mut Step, fence: &str) {
        let both = format!("{}:{}", step.now_us, self.last);
        commands::keep_end(&mut step.image, fence, both.as_bytes());
        if self.renews {
            commands::prolong(step, fence, FENCE_KEPT_MS);
        }
    }
}

fn release(step: &mut Step, names: &Names<'_>, token: &str, used: Option<&str>) -> Option<Answer> {
    match value(step, names.lock)? {
        None => return tagged("expired", []),
        Some(held) if held != token.as_bytes() => return tagged("taken", []),
        Some(_) => {}
    }
    let used = match used {
        None => None,
        Some(used) => Some(counted(used)?),
    };
    if members(step, names.line)?.is_none() {
        if let Some(used) = used {
            let (first, last) = latest(step, names.fence)?;
            if first <= used && used < last {
                let both = format!("{first}:{used}");
                commands::put(step, names.fence, both.as_bytes(), FENCE_KEPT_MS);
            }
        }
        step.image.remove(names.lock);
    } else {
        pass_on(step, names, used)?;
    }
    tagged("released", [])
}

/// The lock goes to the first in line.
fn pass_on(step: &mut Step, names: &Names<'_>, used: Option<u64>) -> Option<()> {
    let in_line = members(step, names.line)??;
    let (member, others) = (in_line.iter().next()?.name.to_vec(), in_line.len() > 1);
    let next = member.get(TOKEN_AT..LOOKED_AT)?;
    let waiter = Waiter::in_member(&member)?;
    let Waiter {
        passed_ms,
        range,
        channel,
        ..
    } = waiter;
    entry(step, names.waiters, next)??;
    if !has_16_digits(step.now_us) || channel.is_empty() {
        return None;
    }
    let mint = match fences(next) {
        true => Some(Mint::plain(step, names.fence, reserved(range)?, used)?),
        false if used.is_some() => return None, // the script gives them back
        false => None,
    };
    if !step.surroundings.present(channel.as_bytes()) {
        return None; // who comes after it, is for the script to find
    }
    commands::hash_del(&mut step.image, names.waiters, next).ok()?;
    sorted::remove(&mut step.image, names.line, &member).ok()?;
    if let Some(mint) = &mint {
        mint.write(step, names.fence);
    }
    commands::put(step, names.lock, next, plain(passed_ms)?);
    let (now_us, others) = (step.now_us, u8::from(others));
    let minted = mint.map_or(0, |_| now_us);
    let mut message = format!("grant {minted} {range} {now_us} {passed_ms} {others} ").into_bytes();
    message.extend_from_slice(next);
    let channel = channel.as_bytes().to_vec();
    step.outbox.push((channel, message));
    Some(())
}

fn has_16_digits(time_us: u64) -> bool {
    time_us.to_string().len() == TIME_DIGITS
}

fn extend(step: &mut Step, lock: &str, token: &str, ttl_ms: u64) -> Option<Answer> {
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

fn acquire(step: &mut Step, names: &Names<'_>, wish: &QueueRequest<'_>) -> Option<Answer> {
    let now = text(step.now_us);
    let token = wish.token.as_bytes();
    let Some(held) = value(step, names.lock)? else {
        if step.image.find(names.line).is_some() {
            return None; // whose turn it is, is for the script to find
        }
        if !wish.fences {
            commands::put(step, names.lock, token, wish.ttl_ms);
            return tagged("unfenced", [now]);
        }
        if !has_16_digits(step.now_us) {
            return None;
        }
        Mint::plain(step, names.fence, 1, None)?.write(step, names.fence);
        commands::put(step, names.lock, token, wish.ttl_ms);
        return tagged("fenced", [now]);
    };
    if held == token {
        let asked = match &wish.wait {
            Some((_, waiter)) => reserved(waiter.range)?,
            None => 1,
        };
        let (fence, range) = match wish.fences {
            true => match latest(step, names.fence)? {
                (0, _) => return None,
                (first, last) => (first, (last + 1).checked_sub(first)?),
            },
            false => (0, asked),
        };
        let others = text(u8::from(members(step, names.line)?.is_some()));
        lengthen(step, names.lock, wish.ttl_ms);
        return tagged("granted", [text(fence), text(range), now, others]);
    }
    let holder = text(client_in(held));
    let Some((wait, waiter)) = &wish.wait else {
        let left = Value::Int(remaining_ms(step, names.lock));
        return tagged("busy", [left, holder, now]);
    };
    let place = enqueue(step, names, wish.token, wait, waiter)?;
    let left = Value::Int(remaining_ms(step, names.lock));
    tagged("waiting", [left, holder, now, Value::Int(place)])
}

/// In line, behind all of the same priority, or still at the place it had. The place counts from 1.
fn enqueue(
    step: &mut Step,
    names: &Names<'_>,
    token: &str,
    wait: &str,
    waiter: &Waiter<'_>,
) -> Option<i64> {
    let (score, now_us) = (waiter.score()?, step.now_us);
    if !has_16_digits(now_us) {
        return None;
    }
    let in_line = members(step, names.line)?;
    let known = entry(step, names.waiters, token.as_bytes())?;
    let ticket = |member: &[u8]| digits(member.get(..TOKEN_AT)?);
    let last = match in_line.and_then(|all| all.iter().last()) {
        Some(last) => Some((ticket(last.name)?, Waiter::in_member(last.name)?)),
        None => None,
    };
    // Nobody of lower priority stands behind, as nearly always.
    let usual = waiter.priority == "0"
        && last
            .as_ref()
            .is_none_or(|(ticket, last)| last.priority == "0" && *ticket < now_us);
    let fresh = known.filter(|known| usual && is_fresh(known, now_us, wait));
    let rank = |mine| in_line?.rank(mine);
    if let Some(rank) = fresh.and_then(rank) {
        return i64::try_from(rank + 1).ok();
    }
    let usual = usual && known.is_none();
    let last = last.map(|(ticket, _)| ticket);
    let at_us = match known {
        Some(known) if known.get(TOKEN_AT..LOOKED_AT) == Some(token.as_bytes()) => ticket(known)?,
        Some(_) => return None,
        None => {
            let all = in_line.into_iter().flat_map(Members::iter);
            let behind = match all.filter(|member| member.score == score).last() {
                Some(member) => ticket(member.name)? + 1,
                None => 0,
            };
            behind.max(now_us)
        }
    };
    let known = known.map(<[u8]>::to_vec);
    let member = format!("{at_us:016}{token}{now_us} {wait}");
    let image = &mut step.image;
    if let Some(known) = known {
        sorted::remove(image, names.line, &known).ok()?;
    }
    commands::hash_set(image, names.waiters, token.as_bytes(), member.as_bytes()).ok()?;
    sorted::add(image, names.line, score, member.as_bytes()).ok()?;
    let entries = match image.find(names.waiters).map(|entry| &entry.content) {
        Some(Content::Hash(fields)) => fields.len(),
        _ => return None,
    };
    let alone = last.is_none() || entries == 1;
    let soon = last.is_some_and(|last| last / 10_000_000 == now_us / 10_000_000);
    if !usual || alone || !soon {
        commands::prolong(step, names.line, LINE_KEPT_MS);
        commands::prolong(step, names.waiters, LINE_KEPT_MS);
    } else {
        return i64::try_from(entries).ok();
    }
    let rank = members(step, names.line)??.rank(member.as_bytes())?;
    i64::try_from(rank + 1).ok()
}

/// Was marked as alive at most 10 s ago, as the leading digits of the time say, and wishes the same.
fn is_fresh(member: &[u8], now_us: u64, wait: &str) -> bool {
    let (now, tens) = (now_us.to_string(), 9);
    let looked = member.get(LOOKED_AT..LOOKED_AT + tens);
    looked == now.as_bytes().get(..tens) && member.get(WISH_AT..) == Some(wait.as_bytes())
}

fn announce(step: &mut Step, record: &str, about: &str, ttl_ms: u64) -> Option<Answer> {
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
