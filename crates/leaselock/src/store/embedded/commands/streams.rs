//! Commands of streams, in the forms that leave them empty: only the last id is kept.

use super::super::reply::{Reply, internal};
use super::super::step::Step;
use super::arguments::parsed;
use crate::base::StoreError;
use crate::script::keyspace::{Keyspace, StreamId};

/// `XINFO STREAM key`, of a stream with this last id.
pub(super) fn info(last: Option<StreamId>) -> Result<Reply, StoreError> {
    let last = last.ok_or_else(|| internal("ERR no such key"))?;
    let field = |name: &str| Reply::Bytes(name.into());
    // The first fields of a server's reply, in its order.
    Ok(Reply::Array(vec![
        field("length"),
        Reply::Int(0),
        field("radix-tree-keys"),
        Reply::Int(0),
        field("radix-tree-nodes"),
        Reply::Int(1),
        field("last-generated-id"),
        shown(last),
    ]))
}

/// `XADD key [NOMKSTREAM] MAXLEN 0 id field value`.
pub(super) fn add(
    step: &mut Step,
    key: &str,
    id: &[u8],
    creates: bool,
) -> Result<Reply, StoreError> {
    let id = wanted(id)?;
    let last = step.stream_last(key)?;
    if last.is_none() && !creates {
        return Ok(Reply::Nil);
    }
    match step.stream_add(key, id)? {
        Some(added) => Ok(shown(added)),
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
