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
    Ok(match (protocol, state) {
        (Protocol::SetnxGetset, Holding::Held { mut holders, count }) => {
            let value = engine
                .store
                .plain(&["GET", &keys.lock], OPERATOR_WITHIN)
                .await?;
            let Some(remaining) = setnx_getset::left(&value)? else {
                return Ok(Holding::Free);
            };
            for holder in &mut holders {
                holder.remaining = Some(remaining);
            }
            Holding::Held { holders, count }
        }
        (Protocol::Redisson, Holding::NotALock { kind }) if kind == "hash" => {
            match engine
                .store
                .plain(&["PTTL", &keys.lock], OPERATOR_WITHIN)
                .await?
            {
                Value::Int(-2) => Holding::Free,
                Value::Int(pttl_ms) => Holding::by(Holder::foreign(calls::remaining(pttl_ms))),
                _ => Holding::NotALock { kind },
            }
        }
        (_, state) => state,
    })
}
