//! Commands of streams, in the forms that leave them empty: only the last id is kept.

use super::super::reply::{Reply, internal};
use super::super::step::Step;
use super::arguments::{Command, MaybeReply, parsed, typed};
use crate::base::StoreError;
use crate::script::keyspace::{Keyspace, StreamId};

pub(super) fn read(step: &Step, (command, key, args): Command<'_>) -> MaybeReply {
    let (b"XINFO", [b"STREAM"]) = (command, args) else {
        return Ok(None);
    };
    let last = typed(step.stream_last(key))?;
    let last = last.ok_or_else(|| internal("ERR no such key"))?;
    let field = |name: &str| Reply::Bytes(name.into());
    // The first fields of a server's reply, in its order.
    Ok(Some(Reply::Array(vec![
        field("length"),
        Reply::Int(0),
        field("radix-tree-keys"),
        Reply::Int(0),
        field("radix-tree-nodes"),
        Reply::Int(1),
        field("last-generated-id"),
        shown(last),
    ])))
}

pub(super) fn write(step: &mut Step, (command, key, args): Command<'_>) -> MaybeReply {
    let (creates, args) = match args {
        [b"NOMKSTREAM", args @ ..] => (false, args),
        _ => (true, args),
    };
    let (b"XADD", [b"MAXLEN", b"0", id, _, _]) = (command, args) else {
        return Ok(None);
    };
    let id = wanted(id)?;
    let last = typed(step.stream_last(key))?;
    if last.is_none() && !creates {
        return Ok(Some(Reply::Nil));
    }
    match step.stream_add(key, id) {
        Some(added) => Ok(Some(shown(added))),
        None => Err(internal(match last {
            Some((u64::MAX, u64::MAX)) => {
                "ERR The stream has exhausted the last possible ID, unable to add more items"
            }
            _ => "ERR The ID specified in XADD is equal or smaller than the target stream top item",
        })),
    }
}

/// Reads the id to add; `None` for `*`.
fn wanted(word: &[u8]) -> Result<Option<StreamId>, StoreError> {
    if word == b"*" {
        return Ok(None);
    }
    let mut parts = word.splitn(2, |byte| *byte == b'-').map(parsed);
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(0), Some(0)) => Err("ERR The ID specified in XADD must be greater than 0-0"),
        (Some(ms), Some(seq)) => Ok(Some((ms, seq))),
        _ => Err("ERR Invalid stream ID specified as stream command argument"),
    }
    .map_err(internal)
}

fn shown((ms, seq): StreamId) -> Reply {
    Reply::Bytes(format!("{ms}-{seq}").into_bytes())
}
