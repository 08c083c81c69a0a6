//! Inspecting the holder of a lock, by the protocol in which the lock is taken.

use std::sync::Arc;

use leaselock_fence::Name;

use super::inspect;
use super::inspection::{Holder, Holding};
use crate::base::error::RequestError;
use crate::engine::services::{Engine, OPERATOR_WITHIN};
use crate::interop::protocol::{Protocol, calls, setnx_getset};
use crate::script::{LockKeys, Value};

/// Reads the state of the lock and changes nothing.
pub(crate) async fn look(
    engine: &Arc<Engine>,
    protocol: Protocol,
    name: &Name,
) -> Result<Holding, RequestError> {
    protocol.check(engine)?;
    let name = match protocol {
        Protocol::Native => return Ok(inspect::inspect(engine, name).await?.state),
        other => other.name_for(name.as_str())?,
    };
    let keys = LockKeys::new(&engine.ids.prefix, &name)?;
    let state = inspect::inspect(engine, &name).await?.state;
    let read = async |command| {
        let words = [command, &*keys.lock];
        engine.store.plain(&words, OPERATOR_WITHIN).await
    };
    Ok(match (protocol, state) {
        (Protocol::SetnxGetset, Holding::Held { mut holders, count }) => {
            let Some(remaining) = setnx_getset::left(&read("GET").await?)? else {
                return Ok(Holding::Free);
            };
            for holder in &mut holders {
                holder.remaining = Some(remaining);
            }
            Holding::Held { holders, count }
        }
        (Protocol::Redisson, Holding::NotALock { kind }) if kind == "hash" => {
            match read("PTTL").await? {
                Value::Int(-2) => Holding::Free,
                Value::Int(pttl_ms) => Holding::by(Holder::foreign(calls::remaining(pttl_ms))),
                _ => Holding::NotALock { kind },
            }
        }
        (_, state) => state,
    })
}
