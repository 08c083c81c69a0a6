//! `mutex/acquire`: a free lock, a held one, or a position in the queue.

use super::fence::{Mint, latest};
use super::numbers::{digits, has_16_digits, reserved};
use super::state::{Keys, client_in, fences};
use super::waiter::{LOOKED_AT, TOKEN_AT, WISH_AT, Waiter};
use crate::script::keyspace::Keyspace;
use crate::script::shortcut::{exactly, lengthen, plain, tagged, text};
use crate::script::{Answer, Parameters, Value};

/// As in `lua/queue.lua`.
const QUEUE_KEPT_MS: u64 = 60_000;

/// The arguments of `mutex/acquire`.
struct Request<'a> {
    token: &'a str,
    ttl_ms: u64,
    fences: bool,
    /// The data of the queue entry; `None` for a request that does not queue.
    wait: Option<(&'a str, Waiter<'a>)>,
}

impl<'a> Request<'a> {
    fn of(args: impl Iterator<Item = &'a str>) -> Option<Self> {
        let [token, ttl_ms, wait] = exactly(args)?;
        if token.len() != LOOKED_AT - TOKEN_AT {
            return None;
        }
        let wait = match wait {
            "" => None,
            wait => Some((wait, Waiter::of(wait)?)),
        };
        Some(Request {
            token,
            ttl_ms: plain(ttl_ms)?,
            fences: fences(token.as_bytes()),
            wait,
        })
    }
}

pub(crate) fn acquire(parameters: &Parameters, keyspace: &mut dyn Keyspace) -> Option<Answer> {
    let (keys, request) = (
        Keys::of(parameters.keys())?,
        Request::of(parameters.args())?,
    );
    let now = text(keyspace.now_us());
    let Some(held) = keyspace.get(keys.lock)? else {
        return acquire_free(keyspace, &keys, &request);
    };
    if held == request.token.as_bytes() {
        return acquire_again(keyspace, &keys, &request);
    }
    let holder = text(client_in(held));
    let place = match &request.wait {
        Some((wait, waiter)) => Some(enqueue(keyspace, &keys, request.token, wait, waiter)?),
        None => None,
    };
    let left = Value::Int(keyspace.remaining_ms(keys.lock));
    match place {
        Some(place) => tagged("waiting", [left, holder, now, Value::Int(place)]),
        None => tagged("busy", [left, holder, now]),
    }
}

fn acquire_free(
    keyspace: &mut dyn Keyspace,
    keys: &Keys<'_>,
    request: &Request<'_>,
) -> Option<Answer> {
    if keyspace.exists(keys.queue) {
        return None; // only the script finds the next waiter
    }
    let (now_us, mut tag) = (keyspace.now_us(), "unfenced");
    if request.fences {
        if !has_16_digits(now_us) {
            return None;
        }
        Mint::plain(keyspace, keys.fence, 1, None)?.write(keyspace, keys.fence);
        tag = "fenced";
    }
    keyspace.set(keys.lock, request.token.as_bytes(), request.ttl_ms);
    tagged(tag, [text(now_us)])
}

/// Answers a holder that asks again, such as one whose first answer was lost.
fn acquire_again(
    keyspace: &mut dyn Keyspace,
    keys: &Keys<'_>,
    request: &Request<'_>,
) -> Option<Answer> {
    let asked = match &request.wait {
        Some((_, waiter)) => reserved(waiter.range)?,
        None => 1,
    };
    let (fence, range) = match request.fences {
        true => match latest(keyspace, keys.fence)? {
            (0, _) => return None,
            (first, last) => (first, (last + 1).checked_sub(first)?),
        },
        false => (0, asked),
    };
    let others = u8::from(keyspace.sorted_len(keys.queue)? > 0);
    lengthen(keyspace, keys.lock, request.ttl_ms);
    let now = text(keyspace.now_us());
    tagged("granted", [text(fence), text(range), now, text(others)])
}

/// Adds the waiter behind all others of the same priority, or keeps its position. Positions count from 1.
fn enqueue(
    keyspace: &mut dyn Keyspace,
    keys: &Keys<'_>,
    token: &str,
    wait: &str,
    waiter: &Waiter<'_>,
) -> Option<i64> {
    let (score, now_us) = (waiter.score()?, keyspace.now_us());
    if !has_16_digits(now_us) {
        return None;
    }
    let ticket = |member: &[u8]| digits(member.get(..TOKEN_AT)?);
    let known = keyspace.hash_get(keys.waiters, token.as_bytes())?;
    let last = match keyspace.sorted_last(keys.queue)? {
        // Behind waiters that were set aside only the script counts positions.
        Some(last) if last.ends_with(b"~") => return None,
        Some(last) => Some((ticket(last)?, Waiter::in_member(last)?)),
        None => None,
    };
    // No waiter of lower priority follows, as nearly always.
    let usual = waiter.priority == "0"
        && last
            .as_ref()
            .is_none_or(|(ticket, last)| last.priority == "0" && *ticket < now_us);
    let last = last.map(|(ticket, _)| ticket);
    if let Some(known) = known.filter(|known| usual && is_fresh(known, now_us, wait))
        && let Some(rank) = keyspace.sorted_rank(keys.queue, known)?
    {
        return position(rank);
    }
    let usual = usual && known.is_none();
    let at_us = match known {
        Some(known) => {
            let is_ours = known.get(TOKEN_AT..LOOKED_AT) == Some(token.as_bytes());
            if !is_ours || Waiter::in_member(known)?.priority != waiter.priority {
                return None;
            }
            ticket(known)?
        }
        None => match keyspace.sorted_last_of(keys.queue, score)? {
            Some(member) => now_us.max(ticket(member)? + 1),
            None => now_us,
        },
    };
    let known = known.map(<[u8]>::to_vec);
    let member = format!("{at_us:016}{token}{now_us} {wait}").into_bytes();
    if let Some(known) = known {
        keyspace.sorted_remove(keys.queue, &known)?;
    }
    keyspace.hash_set(keys.waiters, token.as_bytes(), &member)?;
    keyspace.sorted_add(keys.queue, score, &member)?;
    let entries = keyspace.hash_len(keys.waiters)?;
    let alone = last.is_none() || entries == 1;
    let soon = last.is_some_and(|last| last / 10_000_000 == now_us / 10_000_000);
    if usual && !alone && soon {
        return i64::try_from(entries).ok();
    }
    keyspace.expire(keys.queue, QUEUE_KEPT_MS);
    keyspace.expire(keys.waiters, QUEUE_KEPT_MS);
    position(keyspace.sorted_rank(keys.queue, &member)??)
}

fn position(rank: usize) -> Option<i64> {
    i64::try_from(rank + 1).ok()
}

/// True if it was marked as alive with the same request at most 10 s ago, by the time's leading digits.
fn is_fresh(member: &[u8], now_us: u64, wait: &str) -> bool {
    let (now, tens) = (now_us.to_string(), 9);
    let looked = member.get(LOOKED_AT..LOOKED_AT + tens);
    looked == now.as_bytes().get(..tens) && member.get(WISH_AT..) == Some(wait.as_bytes())
}
