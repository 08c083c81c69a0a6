//! `mutex/release`: the lock becomes free, or goes to the first waiter in the queue.

use super::fence::{FENCE_KEPT_MS, Mint, latest};
use super::numbers::{counted, has_16_digits, reserved};
use super::state::{Keys, fences};
use super::waiter::{LOOKED_AT, TOKEN_AT, Waiter};
use crate::script::keyspace::Keyspace;
use crate::script::shortcut::{plain, tagged};
use crate::script::{Answer, Parameters};

pub(crate) fn release(parameters: &Parameters, keyspace: &mut dyn Keyspace) -> Option<Answer> {
    let (keys, mut args) = (Keys::of(parameters.keys())?, parameters.args());
    let (token, used) = (args.next()?, args.next());
    if args.next().is_some() {
        return None;
    }
    match keyspace.get(keys.lock)? {
        None => return tagged("expired", []),
        Some(held) if held != token.as_bytes() => return tagged("taken", []),
        Some(_) => {}
    }
    let used = match used {
        None => None,
        Some(used) => Some(counted(used)?),
    };
    if keyspace.sorted_len(keys.queue)? > 0 {
        grant_first(keyspace, &keys, used)?;
        return tagged("released", []);
    }
    if let Some(used) = used {
        let (first, last) = latest(keyspace, keys.fence)?;
        if first <= used && used < last {
            let both = format!("{first}:{used}");
            keyspace.set(keys.fence, both.as_bytes(), FENCE_KEPT_MS);
        }
    }
    keyspace.delete(keys.lock);
    tagged("released", [])
}

/// Grants the lock to the first waiter in the queue. As `lua/handover.lua`.
pub(crate) fn grant_first(
    keyspace: &mut dyn Keyspace,
    keys: &Keys<'_>,
    used: Option<u64>,
) -> Option<()> {
    let member = keyspace.sorted_first(keys.queue)??.to_vec();
    let others = u8::from(keyspace.sorted_len(keys.queue)? > 1);
    let next = member.get(TOKEN_AT..LOOKED_AT)?;
    let Waiter {
        passed_ms,
        range,
        channel,
        ..
    } = Waiter::in_member(&member)?;
    keyspace.hash_get(keys.waiters, next)??;
    let now_us = keyspace.now_us();
    if !has_16_digits(now_us) || channel.is_empty() {
        return None;
    }
    let mint = match fences(next) {
        true => Some(Mint::plain(keyspace, keys.fence, reserved(range)?, used)?),
        false if used.is_some() => return None, // the script returns the unused ones
        false => None,
    };
    if !keyspace.has_listener(channel.as_bytes()) {
        return None; // only the script finds the waiter behind it
    }
    keyspace.hash_delete(keys.waiters, next)?;
    keyspace.sorted_remove(keys.queue, &member)?;
    if let Some(mint) = &mint {
        mint.write(keyspace, keys.fence);
    }
    keyspace.set(keys.lock, next, plain(passed_ms)?);
    let minted = mint.map_or(0, |_| now_us);
    let mut message = format!("grant {minted} {range} {now_us} {passed_ms} {others} ").into_bytes();
    message.extend_from_slice(next);
    keyspace.publish(channel.as_bytes(), message);
    Some(())
}
