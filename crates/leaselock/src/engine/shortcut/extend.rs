//! `mutex/extend`: the lease lasts its whole time again.

use crate::script::keyspace::Keyspace;
use crate::script::shortcut::{exactly, lengthen, plain, tagged, text};
use crate::script::{Answer, Parameters, Value};

pub(crate) fn extend(parameters: &Parameters, keyspace: &mut dyn Keyspace) -> Option<Answer> {
    let ([lock], [token, ttl_ms]) = (exactly(parameters.keys())?, exactly(parameters.args())?);
    let (ttl_ms, now) = (plain(ttl_ms)?, text(keyspace.now_us()));
    match keyspace.get(lock)? {
        None => return tagged("expired", [now]),
        Some(held) if held != token.as_bytes() => return tagged("taken", [now]),
        Some(_) => {}
    }
    let left_ms = lengthen(keyspace, lock, ttl_ms);
    tagged("extended", [Value::Int(left_ms), now])
}
