//! Which scripts have a shortcut, and the short ones of them.

use super::acquire::acquire;
use super::numbers::plain;
use super::release::release;
use super::reply::{tagged, text};
use super::request::{QueueRequest, exactly};
use super::state::{Names, lengthen, remaining_ms, value};
use crate::script::{Answer, Call, Value};
use crate::store::embedded::step::Step;
use crate::store::embedded::values;

/// Returns the script's answer and makes its writes in the step.
pub(in crate::store::embedded) fn answer(call: &Call, step: &mut Step) -> Option<Answer> {
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

fn announce(step: &mut Step, record: &str, about: &str, ttl_ms: u64) -> Option<Answer> {
    if about.is_empty() {
        step.image.remove(record);
        return tagged("gone", []);
    }
    let left_ms = u64::try_from(remaining_ms(step, record)).unwrap_or(0);
    values::put(step, record, about.as_bytes(), ttl_ms.max(left_ms));
    tagged("announced", [])
}
