//! The heartbeat of a connection that mostly receives: nothing else would show that its peer has vanished.

use std::time::Duration;

use redis::RedisError;
use redis::aio::MultiplexedConnection;
use tokio::time::{sleep, timeout};

use super::socket::SocketControl;

/// The interval: a silently dead connection is detected after this and `REPLY_WITHIN` at the latest.
const PROBE_EVERY: Duration = Duration::from_secs(5);
pub(super) const REPLY_WITHIN: Duration = Duration::from_secs(2);

/// Ends when the connection does not reply, with its error if it broke.
pub(super) async fn until_silent(
    mut connection: MultiplexedConnection,
    control: &SocketControl,
) -> Option<RedisError> {
    let ping = redis::cmd("PING");
    loop {
        sleep(PROBE_EVERY).await;
        match timeout(REPLY_WITHIN, connection.send_packed_command(&ping)).await {
            Ok(Ok(_)) => control.answered(), // an error is a reply too
            Ok(Err(error)) => return Some(error),
            Err(_) => return None,
        }
    }
}
