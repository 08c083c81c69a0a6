//! Whether a connection that mostly listens is alive: nothing else would tell when its peer has vanished.

use std::time::Duration;

use redis::RedisError;
use redis::aio::MultiplexedConnection;
use tokio::time::{sleep, timeout};

use super::socket::SocketControl;

/// A line that is silently dead is noticed after this and the patience at the latest.
const PROBE_EVERY: Duration = Duration::from_secs(5);
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Ends when the connection does not answer, with its error if it broke.
pub(super) async fn until_silent(
    mut connection: MultiplexedConnection,
    control: &SocketControl,
) -> Option<RedisError> {
    let ping = redis::cmd("PING");
    loop {
        sleep(PROBE_EVERY).await;
        match timeout(PATIENCE, connection.send_packed_command(&ping)).await {
            Ok(Ok(_)) => control.answered(), // an error is an answer too
            Ok(Err(error)) => return Some(error),
            Err(_) => return None,
        }
    }
}
