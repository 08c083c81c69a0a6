//! `mutex/acquire`: a free lock, a held one, or a position in the queue.

use super::mint::Mint;
use super::numbers::{digits, has_16_digits, reserved};
use super::reply::{client_in, tagged, text};
use super::request::QueueRequest;
use super::state::{Names, entry, latest, lengthen, members, remaining_ms, value};
use super::waiter::{LOOKED_AT, TOKEN_AT, WISH_AT, Waiter};
use crate::script::{Answer, Value};
use crate::store::embedded::image::Content;
use crate::store::embedded::packed::Members;
use crate::store::embedded::step::Step;
use crate::store::embedded::{sorted, values};

/// As in `lua/queue.lua`.
const LINE_KEPT_MS: u64 = 60_000;

pub(super) fn acquire(
    step: &mut Step,
    names: &Names<'_>,
    wish: &QueueRequest<'_>,
) -> Option<Answer> {
    let now = text(step.now_us);
    let token = wish.token.as_bytes();
    let Some(held) = value(step, names.lock)? else {
        if step.image.find(names.line).is_some() {
            return None; // only the script finds the next waiter
        }
        if !wish.fences {
            values::put(step, names.lock, token, wish.ttl_ms);
            return tagged("unfenced", [now]);
        }
        if !has_16_digits(step.now_us) {
            return None;
        }
        Mint::plain(step, names.fence, 1, None)?.write(step, names.fence);
        values::put(step, names.lock, token, wish.ttl_ms);
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

/// Adds the waiter behind all others of the same priority, or keeps its position. Positions count from 1.
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
    // No waiter of lower priority follows, as nearly always.
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
    values::hash_set(image, names.waiters, token.as_bytes(), member.as_bytes()).ok()?;
    sorted::add(image, names.line, score, member.as_bytes()).ok()?;
    let entries = match image.find(names.waiters).map(|entry| &entry.content) {
        Some(Content::Hash(fields)) => fields.len(),
        _ => return None,
    };
    let alone = last.is_none() || entries == 1;
    let soon = last.is_some_and(|last| last / 10_000_000 == now_us / 10_000_000);
    if !usual || alone || !soon {
        values::prolong(step, names.line, LINE_KEPT_MS);
        values::prolong(step, names.waiters, LINE_KEPT_MS);
    } else {
        return i64::try_from(entries).ok();
    }
    let rank = members(step, names.line)??.rank(member.as_bytes())?;
    i64::try_from(rank + 1).ok()
}

/// True if it was marked as alive with the same request at most 10 s ago, by the time's leading digits.
fn is_fresh(member: &[u8], now_us: u64, wait: &str) -> bool {
    let (now, tens) = (now_us.to_string(), 9);
    let looked = member.get(LOOKED_AT..LOOKED_AT + tens);
    looked == now.as_bytes().get(..tens) && member.get(WISH_AT..) == Some(wait.as_bytes())
}
