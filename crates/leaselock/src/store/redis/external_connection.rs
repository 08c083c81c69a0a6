//! A connection that the program made and shares with us. It cannot subscribe, and never gets a blocking command.

use std::pin::Pin;
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisResult, ServerError, Value};
use tokio::time::timeout;

use super::error_map;
use crate::base::{ErrorKind, Result, StoreError, debug_as};

pub(super) const PLACE: &str = "the connection that was handed in";

type ExternalAnswer<'a> = Pin<Box<dyn Future<Output = RedisResult<Value>> + Send + 'a>>;

/// Any connection type of the redis client, behind one trait.
pub(crate) trait ExternalConnection: Send + Sync {
    fn one<'a>(&self, command: &'a Cmd) -> ExternalAnswer<'a>;
    /// Sends a transaction, for the reply to its `EXEC`.
    fn together<'a>(&self, commands: &'a Pipeline) -> ExternalAnswer<'a>;
    fn database(&self) -> i64;
}

pub(super) struct Theirs<C>(pub(super) C);

impl<C: ConnectionLike + Clone + Send + Sync + 'static> ExternalConnection for Theirs<C> {
    fn one<'a>(&self, command: &'a Cmd) -> ExternalAnswer<'a> {
        let mut connection = self.0.clone();
        Box::pin(async move { connection.req_packed_command(command).await })
    }

    fn together<'a>(&self, commands: &'a Pipeline) -> ExternalAnswer<'a> {
        let mut connection = self.0.clone();
        Box::pin(async move {
            let behind_multi = commands.len() + 1;
            let answers = connection.req_packed_commands(commands, behind_multi, 1);
            Ok(answers.await?.into_iter().next().unwrap_or(Value::Nil))
        })
    }

    fn database(&self) -> i64 {
        self.0.get_db()
    }
}

/// Waits for the server's reply, which may be an error.
///
/// Their connection decides how often it sends the command, so the outcome of every other failure is unknown. One that
/// sends a command again by itself, and is refused then, makes a refusal of what may have happened.
pub(super) async fn answer(asked: ExternalAnswer<'_>, within: Duration) -> Result<Value> {
    match timeout(within, asked).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => match ServerError::try_from(error) {
            Ok(reply) => Ok(Value::ServerError(reply)),
            Err(error) => Err(error_map::from_connection(error, PLACE)),
        },
        Err(_) => {
            let message = format!("no reply from {PLACE} in time");
            Err(StoreError::unknown(ErrorKind::NoReply, message))
        }
    }
}

debug_as!(dyn ExternalConnection, it => "ExternalConnection(database {})", it.database());
