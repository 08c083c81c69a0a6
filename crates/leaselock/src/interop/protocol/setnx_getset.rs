//! `SETNX` of the lock's end time, `GETSET` to take over one that has ended, `DEL` to release it.
//!
//! This is the protocol of the Redis manual before 2.6 (<https://redis.io/docs/latest/commands/setnx/>). **The holes**:
//! every client judges by its own clock, so one whose clock is ahead takes over a held lock. A loser of `GETSET` moves
//! the winner's time by the difference between their requests, and its cleanup, should it get no reply, deletes that lock. `DEL` compares nothing, so a late one deletes another
//! client's lock.

use std::time::Duration;

use crate::base::clock::wall_us;
use crate::base::{ErrorKind, Result, StoreError, Ttl};
use crate::engine::values::custom::{LockServer, TakeOutcome};
use crate::engine::values::grant::ReleaseAnswer;
use crate::script::Value;

fn now_ms() -> u64 {
    wall_us() / 1000
}

/// Returns the end of a lock that is requested now, in milliseconds since 1970 by this machine's clock.
pub(super) fn value(ttl: Ttl) -> String {
    (now_ms() + ttl.as_ms() + 1).to_string()
}

pub(super) async fn take(server: LockServer<'_>, lock: &str, value: &str) -> Result<TakeOutcome> {
    let busy = |remaining| Ok(TakeOutcome::Busy { remaining });
    if server.plain(&["SETNX", lock, value]).await? == Value::Int(1) {
        return Ok(TakeOutcome::Taken);
    }
    let Some(seen) = end_of(&server.plain(&["GET", lock]).await?)? else {
        return busy(Some(Duration::ZERO)); // it has just been released
    };
    if let Some(remaining) = still(seen) {
        return busy(Some(remaining));
    }
    match end_of(&server.plain(&["GETSET", lock, value]).await?)? {
        // Another client was first, and its lock now has our time.
        Some(end) if end != seen => busy(still(end)),
        _ => Ok(TakeOutcome::Taken),
    }
}

/// Returns how long a lock with this end is still held, by this machine's clock; `None` when it has ended.
fn still(end_ms: u64) -> Option<Duration> {
    let now_ms = now_ms();
    (end_ms >= now_ms).then(|| Duration::from_millis(end_ms - now_ms))
}

/// Parses the time in a value; some libraries write it with a fraction.
fn end_of(value: &Value) -> Result<Option<u64>> {
    let Value::Bytes(text) = value else {
        return Ok(None);
    };
    let text = std::str::from_utf8(text).ok();
    let end = text.and_then(|text| text.split('.').next()?.parse().ok());
    end.map(Some).ok_or_else(|| {
        let message = "what lies under the key is no time, so no lock of setnx-getset: give it another name, or \
                       choose the protocol of the program that wrote it";
        StoreError::refused(ErrorKind::WrongType, message)
    })
}

/// Returns how long the lock is held under this value, by this machine's clock; `None` when it is free.
pub(crate) fn left(value: &Value) -> Result<Option<Duration>> {
    Ok(end_of(value)?.and_then(still))
}

/// Deletes it unless it has ended, by this machine's clock.
pub(super) async fn release(
    server: LockServer<'_>,
    lock: &str,
    value: &str,
) -> Result<ReleaseAnswer> {
    let end_ms = value.parse().unwrap_or(0);
    if now_ms() >= end_ms {
        return Ok(ReleaseAnswer::Expired);
    }
    deleted(server, lock).await
}

/// Sends `DEL`, which compares nothing.
pub(super) async fn deleted(server: LockServer<'_>, lock: &str) -> Result<ReleaseAnswer> {
    match server.plain(&["DEL", lock]).await? {
        Value::Int(0) => Ok(ReleaseAnswer::Expired),
        _ => Ok(ReleaseAnswer::Released),
    }
}
