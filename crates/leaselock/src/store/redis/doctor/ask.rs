//! Requests to a server about itself.

use redis::{Cmd, Value};

use crate::base::{Moment, StoreError};
use crate::store::redis::error_map;
use crate::store::redis::link::RedisStore;

/// Returns the reply, or the error line that the server sent instead.
pub(super) async fn ask(
    link: &RedisStore,
    command: &Cmd,
    until: Moment,
) -> Result<Result<Value, String>, StoreError> {
    match link.ask(command, None, until).await? {
        Value::ServerError(reply) => {
            let line = error_map::line(&reply);
            let error = link.explain(&line);
            // A server that serves no client cannot be examined; the report can do without a refused command.
            if error.is_transient() && !error.maybe_applied() {
                Err(error)
            } else {
                Ok(Err(line))
            }
        }
        value => Ok(Ok(value)),
    }
}
