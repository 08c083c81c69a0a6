//! `SETEX` of a first key and `RENAMENX` to the lock's own under `MULTI`; `DEL` to release it.
//!
//! It was a way to set value and time in one step before `SET NX PX`. **The hole**: `DEL` compares nothing. A request
//! that is on its way when the lock expires deletes the next holder's. So the lock is left to expire when little time
//! remains; a request that takes longer than that guard still deletes it. Times are whole seconds.

use std::time::Duration;

use super::calls::remaining;
use super::setnx_getset::deleted;
use crate::base::{Result, Ttl};
use crate::engine::values::custom::{LockServer, TakeOutcome};
use crate::engine::values::grant::ReleaseAnswer;
use crate::script::Value;

const REAL: &str = ":real_lock";
const FIRST: &str = ":tmp_lock";

pub(super) fn key(name: &str) -> String {
    format!("{name}{REAL}")
}

/// Takes the lock; a loser leaves the first key to expire.
pub(super) async fn take(
    server: LockServer<'_>,
    lock: &str,
    token: &str,
    ttl: Ttl,
) -> Result<TakeOutcome> {
    let first = format!("{}{FIRST}", lock.strip_suffix(REAL).unwrap_or(lock));
    let seconds = (ttl.as_ms() / 1000).to_string();
    let commands: [&[&str]; 3] = [
        &["SETEX", &first, &seconds, token],
        &["RENAMENX", &first, lock],
        &["PTTL", lock],
    ];
    let answers = server.store.together(&commands, server.within).await?;
    let remaining = match answers.as_slice() {
        [_, Value::Int(1), _] => return Ok(TakeOutcome::Taken),
        [_, _, Value::Int(pttl_ms)] => remaining(*pttl_ms),
        _ => None,
    };
    Ok(TakeOutcome::Busy { remaining })
}

/// Deletes it, unless it may be another client's by the time the request arrives.
pub(super) async fn release(
    server: LockServer<'_>,
    lock: &str,
    left: Duration,
    latency_guard: Duration,
) -> Result<ReleaseAnswer> {
    if left <= latency_guard {
        return Ok(ReleaseAnswer::Released); // by its expiry, which is as near
    }
    deleted(server, lock).await
}
