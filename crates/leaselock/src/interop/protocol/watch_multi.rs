//! Taken as in [`setex_renamenx`](super::setex_renamenx); released by `WATCH`, a read, and `MULTI`, `DEL`, `EXEC`.
//!
//! **The hole**: a watch belongs to its connection. Any other use of the connection in between (another lock's `EXEC`,
//! an `UNWATCH`) drops the watch, and then `DEL` deletes whatever is there. So each lock has a dedicated connection
//! from before it is taken until it is released. Their number is limited, because servers limit it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::base::error::{ErrorKind, Result, StoreError};
use crate::engine::values::custom::{Connections, OWN_CONNECTIONS_MOST, OwnConnection};
use crate::engine::values::grant::ReleaseAnswer;
use crate::script::Value;

pub(super) async fn open(connections: &Connections, within: Duration) -> Result<OwnConnection> {
    let permit = Arc::clone(&connections.permits).try_acquire_owned();
    let permit = permit.map_err(|_| {
        let message = format!(
            "watch-multi needs a connection of its own for each lock, and {OWN_CONNECTIONS_MOST} are open, which is the \
             limit of a client: hold fewer at a time, use more clients, or choose setex-renamenx, which needs none"
        );
        StoreError::refused(ErrorKind::NotServing, message)
    })?;
    Ok(OwnConnection {
        connection: Mutex::new(connections.private(within).await?),
        _permit: permit,
    })
}

pub(super) async fn release(
    line: &OwnConnection,
    lock: &str,
    token: &str,
    within: Duration,
) -> Result<ReleaseAnswer> {
    let mut private = line.connection.lock().await;
    private.ask(&["WATCH", lock], within).await?;
    match private.ask(&["GET", lock], within).await? {
        Value::Bytes(held) if held == token.as_bytes() => {}
        other => {
            private.ask(&["UNWATCH"], within).await?;
            return Ok(match other {
                Value::Nil => ReleaseAnswer::Expired,
                _ => ReleaseAnswer::Taken,
            });
        }
    }
    private.ask(&["MULTI"], within).await?;
    private.ask(&["DEL", lock], within).await?;
    match private.ask(&["EXEC"], within).await? {
        Value::Array(answers) if answers == [Value::Int(1)] => Ok(ReleaseAnswer::Released),
        Value::Array(_) => Ok(ReleaseAnswer::Expired),
        _ => Ok(ReleaseAnswer::Taken), // another client changed it since the read
    }
}
