//! Commands of strings, and of keys of every type.

use super::super::reply::{Reply, internal};
use super::super::step::Step;
use super::arguments::{Command, MaybeReply, number, typed};
use crate::base::StoreError;
use crate::script::keyspace::Keyspace;

pub(super) fn read(step: &Step, (command, key, args): Command<'_>) -> MaybeReply {
    Ok(Some(match (command, args) {
        (b"GET", []) => Reply::or_nil(typed(step.get(key))?),
        (b"STRLEN", []) => Reply::count(typed(step.get(key))?.map_or(0, <[u8]>::len)),
        (b"TYPE", []) => {
            let entry = step.image.find(key);
            Reply::Status(entry.map_or("none", |entry| entry.content.kind()))
        }
        (b"PTTL", []) => Reply::Int(step.remaining_ms(key)),
        _ => return Ok(None),
    }))
}

pub(super) fn write(step: &mut Step, (command, key, args): Command<'_>) -> MaybeReply {
    Ok(Some(match (command, args) {
        (b"SET", [value, px, ttl_ms]) if px == b"PX" => set(step, key, value, ttl_ms)?,
        (b"SET", [value, px, ttl_ms, nx]) if px == b"PX" && nx == b"NX" => match step.exists(key) {
            true => Reply::Nil,
            false => set(step, key, value, ttl_ms)?,
        },
        (b"PEXPIRE", [ttl_ms]) => expire(step, key, ttl_ms)?,
        _ => return Ok(None),
    }))
}

fn set(step: &mut Step, key: &str, value: &[u8], ttl_ms: &[u8]) -> Result<Reply, StoreError> {
    let ttl_ms: u64 = number(ttl_ms)?;
    if ttl_ms == 0 {
        return Err(internal("ERR invalid expire time in 'set' command"));
    }
    step.set(key, value, ttl_ms);
    Ok(Reply::Status("OK"))
}

fn expire(step: &mut Step, key: &str, ttl_ms: &[u8]) -> Result<Reply, StoreError> {
    let ttl_ms: i64 = number(ttl_ms)?;
    match u64::try_from(ttl_ms) {
        Ok(ttl_ms @ 1..) => Ok(Reply::flag(step.expire(key, ttl_ms))),
        _ => Ok(Reply::flag(step.delete(key))),
    }
}
