//! Commands of hashes.

use super::super::packed::Fields;
use super::super::reply::{Reply, internal};
use super::super::step::Step;
use super::arguments::{Command, MaybeReply, counted, number, typed};
use crate::base::StoreError;

pub(super) fn read(step: &Step, (command, key, args): Command<'_>) -> MaybeReply {
    Ok(Some(match (command, args) {
        (b"HGET", [field]) => Reply::or_nil(typed(step.hash_get(key, field))?),
        (b"HLEN", []) => Reply::count(typed(step.fields(key))?.map_or(0, Fields::len)),
        (b"HMGET", [_, ..]) => {
            let fields = typed(step.fields(key))?;
            let value = |field: &&[u8]| Reply::or_nil(fields.and_then(|fields| fields.get(field)));
            Reply::Array(args.iter().map(value).collect())
        }
        // A server has them in no order that a script may rely on.
        (b"HGETALL", []) => {
            let fields = typed(step.fields(key))?.into_iter().flat_map(Fields::iter);
            let words = fields.flat_map(|(field, value)| [field, value]);
            Reply::Array(words.map(|word| Reply::Bytes(word.to_vec())).collect())
        }
        _ => return Ok(None),
    }))
}

pub(super) fn write(step: &mut Step, (command, key, args): Command<'_>) -> MaybeReply {
    Ok(Some(match (command, args) {
        (b"HSET", [_, ..]) if args.len().is_multiple_of(2) => {
            let set = |pair: &[&[u8]]| typed(step.hash_set(key, pair[0], pair[1]));
            counted(args.chunks_exact(2), set)?
        }
        (b"HSETNX", [field, value]) => {
            let is_new = typed(step.hash_get(key, field))?.is_none();
            Reply::flag(is_new && typed(step.hash_set(key, field, value))?)
        }
        (b"HINCRBY", [field, value]) => increment(step, key, field, value)?,
        (b"HDEL", [_, ..]) => counted(args, |field| typed(step.hash_delete(key, field)))?,
        _ => return Ok(None),
    }))
}

fn increment(step: &mut Step, key: &str, field: &[u8], value: &[u8]) -> Result<Reply, StoreError> {
    let no_integer = |_| internal("ERR hash value is not an integer");
    let before = typed(step.hash_get(key, field))?;
    let before: i64 = before.map_or(Ok(0), number).map_err(no_integer)?;
    let sum = before.checked_add(number(value)?);
    let sum = sum.ok_or_else(|| internal("ERR increment or decrement would overflow"))?;
    typed(step.hash_set(key, field, sum.to_string().as_bytes()))?;
    Ok(Reply::Int(sum))
}
