//! `mutex/release`: the lock becomes free, or goes to the first waiter in the queue.

use super::mint::{FENCE_KEPT_MS, Mint};
use super::numbers::{counted, has_16_digits, plain, reserved};
use super::reply::tagged;
use super::request::fences;
use super::state::{Names, entry, latest, members, value};
use super::waiter::{LOOKED_AT, TOKEN_AT, Waiter};
use crate::script::Answer;
use crate::store::embedded::step::Step;
use crate::store::embedded::{sorted, values};

pub(super) fn release(
    step: &mut Step,
    names: &Names<'_>,
    token: &str,
    used: Option<&str>,
) -> Option<Answer> {
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
                values::put(step, names.fence, both.as_bytes(), FENCE_KEPT_MS);
            }
        }
        step.image.remove(names.lock);
    } else {
        pass_on(step, names, used)?;
    }
    tagged("released", [])
}

/// Grants the lock to the first waiter in the queue.
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
        false if used.is_some() => return None, // the script returns the unused ones
        false => None,
    };
    if !step.surroundings.present(channel.as_bytes()) {
        return None; // only the script finds the waiter behind it
    }
    values::hash_del(&mut step.image, names.waiters, next).ok()?;
    sorted::remove(&mut step.image, names.line, &member).ok()?;
    if let Some(mint) = &mint {
        mint.write(step, names.fence);
    }
    values::put(step, names.lock, next, plain(passed_ms)?);
    let (now_us, others) = (step.now_us, u8::from(others));
    let minted = mint.map_or(0, |_| now_us);
    let mut message = format!("grant {minted} {range} {now_us} {passed_ms} {others} ").into_bytes();
    message.extend_from_slice(next);
    let channel = channel.as_bytes().to_vec();
    step.outbox.push((channel, message));
    Some(())
}
