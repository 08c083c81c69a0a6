//! Requests to a server about itself.

use redis::{Cmd, Value};

use super::facts::Shape;
use crate::base::{Moment, Result};
use crate::store::redis::error_map;
use crate::store::redis::link::RedisStore;

/// A server that is examined, for so long.
#[derive(Clone, Copy)]
pub(super) struct Examined<'a> {
    pub(super) link: &'a RedisStore,
    pub(super) shape: Shape,
    pub(super) until: Moment,
}

impl Examined<'_> {
    /// Returns the reply, or the error line that the server sent instead.
    pub(super) async fn ask(self, words: &[&str]) -> Result<Result<Value, String>> {
        let (link, until) = (self.link, self.until);
        match link.ask(Cmd::new().arg(words), None, until).await? {
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
}
